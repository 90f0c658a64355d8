import { CacheError } from '../core/errors.ts'
import type { ChatMessage } from './tokenizer-port.ts'

/** A template that goes through the parts of a message by itself, and one that takes plain text as well. */
const READS_PARTS = /\bfor\b[^%]*\bcontent\b/
const READS_TEXT = /\bis\s+string\b/

/**
 * Messages as a template wants them, by vLLM's rules: parts of text become one text, joined by line ends, unless the
 * template reads parts; no content is an empty one; arguments of tool calls that are JSON text become objects.
 *
 * @throws CacheError BAD_REQUEST for parts that are not text.
 */
export function flattenMessages(messages: readonly ChatMessage[], template: string): ChatMessage[] {
  const readsParts = READS_PARTS.test(template)
  const readsText = !readsParts || READS_TEXT.test(template)
  return messages.map((message, at) => {
    const { content, tool_calls: calls } = message
    const flat = { ...message, content: contentOf(content, readsParts, readsText, at) }
    return Array.isArray(calls) ? { ...flat, tool_calls: calls.map((call) => withArguments(call, at)) } : flat
  })
}

function contentOf(content: unknown, readsParts: boolean, readsText: boolean, at: number): unknown {
  if (content === undefined || content === null) return ''
  if (typeof content === 'string') return readsText ? content : [{ type: 'text', text: content }]
  if (!Array.isArray(content)) throw refused(`messages.${at}.content`, 'is neither text nor a list of parts')
  const texts = content.map((part) => textOf(part, at))
  return readsParts ? texts.map((text) => ({ type: 'text', text })) : texts.join('\n')
}

function textOf(part: unknown, at: number): string {
  if (typeof part === 'string') return part
  const { type, text } = (part ?? {}) as { type?: unknown; text?: unknown }
  if (type === 'text' && typeof text === 'string') return text
  throw refused(`messages.${at}.content`, 'has a part that is not text: only text can be tokenized')
}

function withArguments(call: unknown, at: number): unknown {
  const target = (call as { function?: { arguments?: unknown } } | null)?.function
  if (typeof target?.arguments !== 'string') return call
  try {
    return { ...(call as object), function: { ...target, arguments: JSON.parse(target.arguments) } }
  } catch {
    throw refused(`messages.${at}.tool_calls`, 'has arguments that are not JSON')
  }
}

function refused(field: string, what: string): CacheError {
  return new CacheError('BAD_REQUEST', `${field} ${what}`, { field })
}
