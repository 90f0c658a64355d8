import { parse, tokenize } from '@huggingface/jinja'
import { CacheError } from '../core/errors.ts'
import { conversationOf, toolsOf } from './chat-messages.ts'
import { type JinjaNode, type JinjaValue, NewScope, type Scope } from './jinja/jinja-values.ts'
import { PythonInterpreter } from './jinja/python-interpreter.ts'
import type { ChatTemplates } from './model-files.ts'
import type { ChatInput, ChatMessage } from './tokenizer-port.ts'

/** Expressions that one rendering may evaluate, numbers of one range(), and characters of any string it makes. */
const STEPS_MAX = 2_000_000
const RANGE_MAX = 100_000
/** Characters of a template at most. */
const TEMPLATE_LENGTH_MAX = 1024 * 1024

/** What a template is rendered with, besides the chat. */
export interface TemplateFacts {
  /** bos_token, eos_token and their like. */
  readonly specialTokens: Readonly<Record<string, string>>
  /** Characters of the rendered text at most. */
  readonly lengthMax: number
  /** Milliseconds since 1970, for templates that tell the date. */
  readonly wallMs: number
}

/** The template that a chat asks for. @throws CacheError TEMPLATE_FAILED when the model has none */
export function templateOf(templates: ChatTemplates, chat: ChatInput, model: string): string {
  const named = chat.tools === null ? undefined : templates.tool_use
  const template = chat.template ?? named ?? templates.default
  if (template !== undefined) return template
  throw failed(`the model ${model} has no chat template; send a prompt`, 'messages')
}

/**
 * The text of a chat, as the model reads it. Nothing of the template is executed but Jinja: no code, no files, no
 * imports. Its steps and the length of its strings are bounded.
 *
 * @throws CacheError TEMPLATE_FAILED
 */
export function renderChat(template: string, chat: ChatInput, facts: TemplateFacts): string {
  if (template.length > TEMPLATE_LENGTH_MAX) throw failed('the chat template is too long', 'chat_template')
  try {
    const program = parse(tokenize(template, { lstrip_blocks: true, trim_blocks: true }))
    const messages = conversationOf(chat.messages, template)
    const open = chat.continueFinalMessage ? withMark(messages) : messages
    const text = textOf(new BoundedInterpreter(environmentOf(chat, open, facts), facts.lengthMax).run(program))
    return chat.continueFinalMessage ? upToMark(text, messages) : text
  } catch (error) {
    if (error instanceof CacheError) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw failed(`the chat template refuses the messages: ${reason.slice(0, 500)}`, 'messages')
  }
}

/** An interpreter that gives up in time. */
class BoundedInterpreter extends PythonInterpreter {
  readonly #lengthMax: number
  #steps = 0

  constructor(environment: Scope, lengthMax: number) {
    super(environment)
    this.#lengthMax = lengthMax
  }

  override evaluate(statement: JinjaNode | undefined, environment: Scope): JinjaValue {
    this.#steps += 1
    if (this.#steps > STEPS_MAX) throw failed(`the chat template takes more than ${STEPS_MAX} steps`, 'messages')
    const result = super.evaluate(statement, environment)
    const { value } = result
    const isLong = (typeof value === 'string' || Array.isArray(value)) && value.length > this.#lengthMax
    if (isLong) throw failed(`the chat template makes more than ${this.#lengthMax} characters`, 'messages')
    return result
  }
}

function environmentOf(chat: ChatInput, messages: readonly object[], facts: TemplateFacts): Scope {
  const environment = new NewScope()
  const variables: Record<string, unknown> = {
    ...globals(facts),
    ...facts.specialTokens,
    documents: null,
    ...chat.templateArguments,
    messages,
    tools: toolsOf(chat.tools),
    add_generation_prompt: chat.addGenerationPrompt,
  }
  for (const [name, value] of Object.entries(variables)) environment.set(name, value)
  return environment
}

function globals({ wallMs }: TemplateFacts): Record<string, unknown> {
  const constants = { true: true, false: false, none: null, True: true, False: false, None: null }
  const raise = (message: unknown) => {
    throw new Error(String(message))
  }
  return { ...constants, raise_exception: raise, range, strftime_now: (format: string) => dateText(wallMs, format) }
}

/** Python's range(), bounded. */
function range(first: number, second?: number, step = 1): number[] {
  const [start, stop] = second === undefined ? [0, first] : [first, second]
  if (step === 0) throw new Error('range() step must not be zero')
  const length = Math.max(0, Math.ceil((stop - start) / step))
  if (!(length <= RANGE_MAX)) throw failed(`the chat template asks for a range of more than ${RANGE_MAX}`, 'messages')
  return Array.from({ length }, (_, index) => start + index * step)
}

/** Python's strftime, for the fields that templates use; in UTC. */
function dateText(wallMs: number, format: string): string {
  const date = new Date(wallMs)
  const part = (options: Intl.DateTimeFormatOptions) => date.toLocaleString('en-US', { ...options, timeZone: 'UTC' })
  const two = (value: number) => String(value).padStart(2, '0')
  const fields: Record<string, string> = {
    '%Y': String(date.getUTCFullYear()),
    '%m': two(date.getUTCMonth() + 1),
    '%d': two(date.getUTCDate()),
    '%b': part({ month: 'short' }),
    '%B': part({ month: 'long' }),
    '%H': two(date.getUTCHours()),
    '%M': two(date.getUTCMinutes()),
    '%%': '%',
  }
  return format.replace(/%[YmdbBHM%]/g, (field) => fields[field]!)
}

/** Put behind the last message's words to find their end, as the transformers library does. */
const MARK = 'CONTINUE_FINAL_MESSAGE_TAG '

type Part = { readonly type: string; readonly text: string }

function withMark(messages: readonly ChatMessage[]): ChatMessage[] {
  const { content, ...last } = messages.at(-1) ?? { role: '' }
  if (content === undefined) throw failed('continue_final_message needs a last message of text', 'messages')
  return [...messages.slice(0, -1), { ...last, content: marked(content) }]
}

function marked(content: unknown): unknown {
  if (typeof content === 'string') return content + MARK
  const parts = content as readonly Part[]
  if (parts.length === 0) throw failed('continue_final_message needs a last message of text', 'messages')
  return parts.map((part, at) => (at === parts.length - 1 ? { ...part, text: part.text + MARK } : part))
}

/** A template that cuts spaces off the last message has cut that of the mark, and cuts those before it. */
function upToMark(text: string, messages: readonly ChatMessage[]): string {
  const { content } = messages.at(-1)!
  const words = typeof content === 'string' ? content : (content as readonly Part[]).at(-1)!.text
  const at = text.lastIndexOf(MARK.trim())
  if (at < 0 || !text.includes(words.trim())) {
    throw failed('continue_final_message: the chat template changes the last message', 'messages')
  }
  return text.startsWith(MARK, at) ? text.slice(0, at) : text.slice(0, at).trimEnd()
}

function textOf({ value }: JinjaValue): string {
  return typeof value === 'string' ? value : String(value)
}

function failed(message: string, field: string): CacheError {
  return new CacheError('TEMPLATE_FAILED', message, { field })
}
