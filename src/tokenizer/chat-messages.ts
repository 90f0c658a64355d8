import { CacheError } from '../core/errors.ts'
import type { ChatMessage } from './tokenizer-port.ts'

/** A template that goes through the parts of a message by itself. */
const READS_PARTS = /\bfor\s+\w+(?:\s*,\s*\w+)*\s+in\s+[^%]*\bcontent\b/
/** Kinds of parts that are text, and the field that has it. */
const TEXT_FIELDS: Readonly<Record<string, string>> = {
  text: 'text',
  input_text: 'text',
  output_text: 'text',
  refusal: 'refusal',
}

type Json = Readonly<Record<string, unknown>>

/**
 * Messages as vLLM 0.32 hands them to a template: of each message the fields that it knows; content as one text, joined
 * by line ends, or as a list of parts when the template reads parts; calls with their arguments as objects; developers
 * as the system where the template does not know them.
 *
 * @throws CacheError BAD_REQUEST for parts that are not text, and calls that are not of functions.
 */
export function conversationOf(messages: readonly ChatMessage[], template: string): ChatMessage[] {
  const readsParts = READS_PARTS.test(template)
  const all = messages.map((message, at) => conversationMessage(message, readsParts, at))
  const knowsDevelopers = template.includes('"developer"') || template.includes("'developer'")
  const isPlain = knowsDevelopers || all.every(({ role }) => role !== 'developer')
  return isPlain ? all : withoutDevelopers(all)
}

/** Tools as vLLM hands them to a template: what it knows of a function, and null for what is not told. */
export function toolsOf(tools: readonly object[] | null): readonly object[] | null {
  if (tools === null) return null
  return tools.map((tool, at) => {
    const { type = 'function', function: about } = tool as { type?: unknown; function?: unknown }
    if (type !== 'function' || !isObject(about) || typeof about.name !== 'string') {
      throw refused(`tools.${at}`, 'is no {type: "function", function: {name, description, parameters}}')
    }
    const { name, description = null, parameters = null, strict = null } = about
    return { type, function: { name, description, parameters, ...(strict === null ? {} : { strict }) } }
  })
}

function conversationMessage(message: ChatMessage, readsParts: boolean, at: number): ChatMessage {
  const { role, name, task } = message
  const texts = textsOf(message.content, at)
  const isList = readsParts && role !== 'tool'
  const content = isList
    ? texts.map((text) => ({ type: 'text', text }))
    : texts.filter((text) => text !== '').join('\n')
  return {
    role,
    content,
    ...(role === 'assistant' ? answerFields(message, at) : {}),
    ...(role === 'tool' && 'tool_call_id' in message ? { tool_call_id: message.tool_call_id } : {}),
    ...(typeof name === 'string' ? { name } : {}),
    ...(typeof task === 'string' ? { task } : {}),
    ...(role === 'developer' ? { tools: message.tools ?? null } : {}),
  }
}

function textsOf(content: unknown, at: number): string[] {
  if (content === undefined || content === null) return []
  if (typeof content === 'string') return [content]
  if (!Array.isArray(content)) throw refused(`messages.${at}.content`, 'is neither text nor a list of parts')
  return content.map((part) => textOf(part, at))
}

function textOf(part: unknown, at: number): string {
  if (typeof part === 'string') return part
  const text = isObject(part) ? part[TEXT_FIELDS[String(part.type)] ?? ''] : undefined
  if (typeof text === 'string') return text
  throw refused(`messages.${at}.content`, 'has a part that is not text: only text can be tokenized')
}

/** What an assistant thought, and what it called. */
function answerFields({ tool_calls: calls, reasoning }: ChatMessage, at: number): Json {
  const thoughts = reasoning === undefined || reasoning === null ? {} : { reasoning, reasoning_content: reasoning }
  if (!Array.isArray(calls) || calls.length === 0) return thoughts
  return { tool_calls: calls.map((call) => callOf(call, at)), ...thoughts }
}

function callOf(call: unknown, at: number): Json {
  const about = isObject(call) ? call.function : undefined
  if (!isObject(call) || (call.type ?? 'function') !== 'function' || !isObject(about)) {
    throw refused(`messages.${at}.tool_calls`, 'has a call that is not {type: "function", function: {...}}')
  }
  return { ...call, function: { ...about, arguments: argumentsOf(about.arguments) } }
}

/** What is no object, or no JSON of one, is an empty one: it stands in a conversation that has to go on. */
function argumentsOf(raw: unknown): Json {
  if (typeof raw !== 'string') return isObject(raw) ? raw : {}
  try {
    const parsed: unknown = JSON.parse(raw)
    return isObject(parsed) ? parsed : {}
  } catch {
    return {}
  }
}

/** Developers are the system, and what the system says comes first, in one message. */
function withoutDevelopers(messages: readonly ChatMessage[]): ChatMessage[] {
  const isSystem = ({ role }: ChatMessage) => role === 'system' || role === 'developer'
  const system = messages.filter(isSystem).map(({ tools: _, ...message }) => ({ ...message, role: 'system' }))
  const others = messages.filter((message) => !isSystem(message))
  if (system.length === 1 && isSystem(messages[0]!)) return [...system, ...others]
  const texts = system.map(({ content }) => plainText(content)).filter((text) => text !== '')
  return [{ role: 'system', content: texts.join('\n\n') }, ...others]
}

function plainText(content: unknown): string {
  if (!Array.isArray(content)) return String(content)
  return content.map(({ text }: { text: string }) => text).join('\n')
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function refused(field: string, what: string): CacheError {
  return new CacheError('BAD_REQUEST', `${field} ${what}`, { field })
}
