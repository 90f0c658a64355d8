import { describe, expect, it } from 'vitest'
import { conversationOf, toolsOf } from '../../../src/tokenizer/chat-messages.ts'
import type { ChatMessage } from '../../../src/tokenizer/tokenizer-port.ts'

const READS_TEXT = '{% for m in messages %}{{ m.content }}{% endfor %}'
const READS_PARTS = '{% for m in messages %}{% for p in m["content"] %}{{ p.text }}{% endfor %}{% endfor %}'

const text = (words: string) => ({ type: 'text', text: words })
const call = (more: object) => ({ id: '1', type: 'function', function: { name: 'f', ...more } })

// What vLLM 0.32 (parse_chat_messages) makes of the same messages: as one text, and as parts.
const RECORDED: [string, object, object, object][] = [
  [
    'unknown fields',
    { role: 'user', content: 'hi', extra: 1, name: 'bob' },
    { role: 'user', content: 'hi', name: 'bob' },
    { role: 'user', content: [text('hi')], name: 'bob' },
  ],
  ['no content', { role: 'user', content: null }, { role: 'user', content: '' }, { role: 'user', content: [] }],
  ['content that is not there', { role: 'user' }, { role: 'user', content: '' }, { role: 'user', content: [] }],
  [
    'parts',
    { role: 'user', content: [text('a'), 'b'] },
    { role: 'user', content: 'a\nb' },
    { role: 'user', content: [text('a'), text('b')] },
  ],
  [
    'what a tool says',
    { role: 'tool', content: [text('t'), text('u')], tool_call_id: '1', zzz: 2 },
    { role: 'tool', content: 't\nu', tool_call_id: '1' },
    { role: 'tool', content: 't\nu', tool_call_id: '1' },
  ],
  [
    'thoughts',
    { role: 'assistant', content: 'x', tool_calls: [], reasoning: 'r' },
    { role: 'assistant', content: 'x', reasoning: 'r', reasoning_content: 'r' },
    { role: 'assistant', content: [text('x')], reasoning: 'r', reasoning_content: 'r' },
  ],
  [
    'thoughts by another name',
    { role: 'assistant', content: 'x', reasoning_content: 'rc' },
    { role: 'assistant', content: 'x' },
    { role: 'assistant', content: [text('x')] },
  ],
]

describe('a message is what vLLM makes of it', () => {
  it.each(RECORDED)('%s', (_what, message, asText, asParts) => {
    expect(conversationOf([message as ChatMessage], READS_TEXT)).toEqual([asText])
    expect(conversationOf([message as ChatMessage], READS_PARTS)).toEqual([asParts])
  })

  it.each([
    ['{"a": 1}', { a: 1 }],
    ['', {}],
    ['[1', {}],
    ['[1]', {}],
    [undefined, {}],
    [{ b: 2 }, { b: 2 }],
  ])('a call with the arguments %j', (raw, parsed) => {
    const messages = [{ role: 'assistant', content: null, tool_calls: [call({ arguments: raw })] }]
    expect(conversationOf(messages, READS_TEXT)).toEqual([
      { role: 'assistant', content: '', tool_calls: [call({ arguments: parsed })] },
    ])
  })

  it.each([
    ['a picture', { role: 'user', content: [{ type: 'image_url', image_url: {} }] }, 'messages.0.content'],
    ['content that is a number', { role: 'user', content: 1 }, 'messages.0.content'],
    ['a call of no function', { role: 'assistant', tool_calls: [{ type: 'code' }] }, 'messages.0.tool_calls'],
  ])('refuses %s', (_what, message, field) => {
    expect(() => conversationOf([message], READS_TEXT)).toThrow(
      expect.objectContaining({ code: 'BAD_REQUEST', detail: { field } }),
    )
  })
})

describe('developers', () => {
  const chat = [
    { role: 'system', content: 'a' },
    { role: 'user', content: 'q' },
    { role: 'developer', content: 'b', tools: [] },
  ]

  it('stay for a template that knows them', () => {
    const roles = conversationOf(chat, `${READS_TEXT}{% if m.role == "developer" %}{% endif %}`).map(({ role }) => role)
    expect(roles).toEqual(['system', 'user', 'developer'])
  })

  it('are the system for another, in one first message', () => {
    expect(conversationOf(chat, READS_TEXT)).toEqual([
      { role: 'system', content: 'a\n\nb' },
      { role: 'user', content: 'q' },
    ])
  })
})

describe('tools', () => {
  it('are what vLLM knows of them', () => {
    const more = { name: 'g', description: 'd', parameters: { type: 'object' }, strict: true, zz: 1 }
    expect(JSON.stringify(toolsOf([{ function: { name: 'f' } }, { type: 'function', function: more, yy: 2 }]))).toBe(
      '[{"type":"function","function":{"name":"f","description":null,"parameters":null}},' +
        '{"type":"function","function":{"name":"g","description":"d","parameters":{"type":"object"},"strict":true}}]',
    )
  })

  it('that are no functions are refused', () => {
    expect(() => toolsOf([{ type: 'code' }])).toThrow(/tools\.0/)
  })
})
