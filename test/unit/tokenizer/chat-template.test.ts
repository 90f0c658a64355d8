import { describe, expect, it } from 'vitest'
import { bundledModels } from '../../../src/tokenizer/bundled-models.ts'
import { renderChat, templateOf } from '../../../src/tokenizer/chat-template.ts'
import type { ChatInput } from '../../../src/tokenizer/tokenizer-port.ts'

const FACTS = { specialTokens: { eos_token: '<e>' }, lengthMax: 10_000, wallMs: Date.UTC(2026, 0, 2, 3, 4) }

function chat(over: Partial<ChatInput> = {}): ChatInput {
  return {
    kind: 'chat',
    messages: [{ role: 'user', content: 'hi' }],
    tools: null,
    addGenerationPrompt: true,
    continueFinalMessage: false,
    templateArguments: {},
    template: null,
    ...over,
  }
}

const LINES = '{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}'

it('renders messages, special tokens and further variables', () => {
  const template = `${LINES}{{ eos_token }}{{ mood }}{{ strftime_now("%Y-%m-%d") }}`
  expect(renderChat(template, chat({ templateArguments: { mood: 'calm' } }), FACTS)).toBe(
    '[user] hi\n<e>calm2026-01-02',
  )
})

it("renders Qwen3's template as its authors do", async () => {
  const [files] = await bundledModels()
  const text = renderChat(templateOf(files!.templates, chat(), files!.model), chat(), FACTS)
  expect(text).toBe('<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n')
})

it('leaves the last message open when asked to', () => {
  const open = chat({ continueFinalMessage: true, addGenerationPrompt: false })
  expect(renderChat(`${LINES}<end>`, open, FACTS)).toBe('[user] hi')
})

it.each([
  ['keeps the spaces that the template keeps', LINES, 'Sure: ', '[user] Sure: '],
  ['cuts those that it cuts', LINES.replace('m.content', 'm.content | trim'), 'Sure: ', '[user] Sure:'],
  ['finds the last message, not its words elsewhere', `${LINES}[user]`, 'user', '[user] user'],
])('%s of a last message that is left open', (_what, template, content, text) => {
  const open = { continueFinalMessage: true, addGenerationPrompt: false, messages: [{ role: 'user', content }] }
  expect(renderChat(template, chat(open), FACTS)).toBe(text)
})

it('tells a template that there are no tools', () => {
  expect(renderChat('{{ tools is none }} {{ documents is none }}', chat(), FACTS)).toBe('True True')
})

describe('messages', () => {
  const render = (content: unknown, template = LINES) =>
    renderChat(template, chat({ messages: [{ role: 'user', content }] }), FACTS)

  it('have parts of text joined by line ends', () => {
    const parts = [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ]
    expect(render(parts)).toBe('[user] a\nb\n')
  })

  it('keep their parts for a template that reads them', () => {
    const template = '{% for m in messages %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endfor %}'
    expect(render([{ type: 'text', text: 'a' }], template)).toBe('<a>')
    expect(render('a', template)).toBe('<a>')
  })

  it('without content are empty', () => {
    expect(render(null)).toBe('[user] \n')
  })

  it('with pictures are refused', () => {
    expect(() => render([{ type: 'image_url', image_url: {} }])).toThrow(/not text/)
  })

  it('have the arguments of tool calls as objects', () => {
    const call = { function: { name: 'f', arguments: '{"a": 1}' } }
    const messages = [{ role: 'assistant', content: 'x', tool_calls: [call] }]
    expect(renderChat('{{ messages[0].tool_calls[0].function.arguments.a }}', chat({ messages }), FACTS)).toBe('1')
  })
})

describe('a template is stopped', () => {
  it.each([
    ['that never ends', '{% for a in range(50000) %}{% for b in range(50000) %}{{ b }}{% endfor %}{% endfor %}'],
    ['that asks for a huge range', '{{ range(10000000000) | length }}'],
    [
      'that doubles a text',
      `{% set ns = namespace(x="${'a'.repeat(50)}") %}${'{% set ns.x = ns.x ~ ns.x %}'.repeat(60)}`,
    ],
    ['that calls itself', '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}'],
    ['that nests deeply', `${'{% if true %}'.repeat(20_000)}${'{% endif %}'.repeat(20_000)}`],
    ['that indents by gigabytes', '{{ "a\\nb" | indent(1000000000) }}'],
    ['that indents JSON by gigabytes', '{{ [1] | tojson(indent=1000000000) }}'],
    [
      'that multiplies a text by replacing',
      `{% set ns = namespace(x="${'a'.repeat(50)}") %}${'{% set ns.x = ns.x.replace("a", ns.x) %}'.repeat(9)}`,
    ],
    ['that multiplies a list', `{% set ns = namespace(x=[1, 2, 3, 4]) %}${'{% set ns.x = ns.x + ns.x %}'.repeat(60)}`],
    [
      'that nests lists without end',
      '{% set ns = namespace(x=[]) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}',
    ],
    ['that raises a number without end', '{{ 9 ** 9 ** 9 ** 9 }}'],
    ['that asks for a range of nothing', '{{ range(0, 1, 0) }}'],
    ['that refuses the messages', '{{ raise_exception("roles must alternate") }}'],
    ['that is no template', '{% for %}'],
  ])('%s', (_what, template) => {
    expect(() => renderChat(template, chat(), FACTS)).toThrow(expect.objectContaining({ code: 'TEMPLATE_FAILED' }))
  })

  it.each([
    'messages.constructor.constructor("return process")()',
    'range.constructor("return process")()',
    'raise_exception.constructor',
    'strftime_now.call',
    '"".constructor',
    '"".__class__.__mro__',
    '[].constructor',
    'messages.push',
    'messages[0].__proto__',
    'messages[0].constructor',
    'messages[0].get.constructor',
    'messages[0]["__proto__"]',
    'given.constructor',
    'namespace().__proto__',
    'self',
    'cycler',
    'lipsum.__globals__',
  ])('and reaches nothing of the process by %s', (reach) => {
    const given = JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1}')
    const template = `{% if ${reach} is defined %}reached{% endif %}`
    const arrive = () => renderChat(template, chat({ templateArguments: { given: {}, ...given } }), FACTS)
    let text = ''
    try {
      text = arrive()
    } catch (error) {
      expect(error).toMatchObject({ code: 'TEMPLATE_FAILED' })
    }
    expect(text).toBe('')
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  })
})

it('says that a model has no template', () => {
  expect(() => templateOf({}, chat(), 'a/b')).toThrow(/a\/b has no chat template/)
})
