import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CacheError } from '../../src/core/errors.ts'
import { bundledModels } from '../../src/tokenizer/bundled-models.ts'
import { conversationOf, toolsOf } from '../../src/tokenizer/chat-messages.ts'
import { renderChat } from '../../src/tokenizer/chat-template.ts'
import type { ChatInput, ChatMessage } from '../../src/tokenizer/tokenizer-port.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { type PythonEnvironment, pythonEnvironment } from './python-environment.ts'

// Chat templates of published models, as Hugging Face collects them in @huggingface/ollama-utils, rendered here and by
// Jinja in Python, set up as transformers sets it up. Both get the messages after vLLM's rules (chat-messages.ts).

/** The package exports the list to nobody, but its sources are in it. */
const PUBLISHED = join(REPOSITORY, 'node_modules/@huggingface/ollama-utils/src/chat-template-automap.ts')
const SCRIPT = join(REPOSITORY, 'test/compat/official_tokens.py')
const FACTS = {
  specialTokens: { bos_token: '<bos>', eos_token: '<eos>', unk_token: '<unk>', pad_token: '<pad>' },
  lengthMax: 1_000_000,
  wallMs: Date.UTC(2026, 0, 2, 3, 4, 5),
}

const user = (content: unknown): ChatMessage => ({ role: 'user', content })
const assistant = (content: unknown, more: object = {}): ChatMessage => ({ role: 'assistant', content, ...more })
const system = (content: unknown): ChatMessage => ({ role: 'system', content })

const WEATHER = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Tells the weather of a "city" \u2013 now.',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string', description: "The city's name" },
        unit: { type: 'string', enum: ['c', 'f'] },
        days: { type: 'integer', default: 3, minimum: 1.5 },
        exact: { type: 'boolean', default: false },
        near: { type: 'array', items: { type: 'number' } },
      },
      required: ['city'],
    },
  },
}
const CALL = {
  id: 'call00001',
  type: 'function',
  function: {
    name: 'get_weather',
    arguments: '{"city": "Z\u00fcrich", "days": 2, "exact": true, "near": [1.5, null]}',
  },
}
const UNICODE =
  '  Gr\u00fc\u00dfe \u{1f469}\u200d\u{1f469}\u200d\u{1f467} \u0645\u0631\u062d\u0628\u0627\r\n\t<b>&amp; "quotes" {{ not }} {% a %} \\n  '

/** Chats by what they are about. */
const CHATS: Readonly<Record<string, Partial<ChatInput>>> = {
  'one message': { messages: [user('Hello')] },
  'no generation prompt': { messages: [user('Hello'), assistant('Hi')], addGenerationPrompt: false },
  'a system message': { messages: [system('Be brief.'), user('Hello')] },
  'several turns': { messages: [system('S'), user('a'), assistant('b'), user('c'), assistant(' d '), user('e')] },
  unicode: { messages: [system(UNICODE), user(UNICODE), assistant(UNICODE), user(UNICODE)] },
  'no content': { messages: [user('a'), assistant(null), user('b')] },
  'parts of text': {
    messages: [
      user([
        { type: 'text', text: 'one' },
        { type: 'text', text: 'two' },
      ]),
    ],
  },
  'a thought': { messages: [user('a'), assistant('<think>\nhm\n</think>\n\nb'), user('c')] },
  'its own reasoning': {
    messages: [user('a'), assistant('b', { reasoning: 'hm' })],
    addGenerationPrompt: false,
  },
  tools: { messages: [system('S'), user('Weather?')], tools: [WEATHER, { ...WEATHER, extra: null }] },
  'a tool call and its result': {
    messages: [
      user('Weather?'),
      assistant(null, { tool_calls: [CALL] }),
      { role: 'tool', tool_call_id: 'call00001', name: 'get_weather', content: '{"sky": "clear"}' },
    ],
    tools: [WEATHER],
  },
  'two calls at once': {
    messages: [
      user('Weather?'),
      assistant('Let me see.', { tool_calls: [CALL, { ...CALL, id: 'call00002' }] }),
      { role: 'tool', tool_call_id: 'call00001', name: 'get_weather', content: 'clear' },
      { role: 'tool', tool_call_id: 'call00002', name: 'get_weather', content: 'rain' },
      assistant('Clear, then rain.'),
      user('Thanks'),
    ],
    tools: [WEATHER],
  },
  'arguments for the template': {
    messages: [user('a')],
    templateArguments: { enable_thinking: false, thinking: true },
  },
  'roles that do not alternate': { messages: [user('a'), user('b')] },
  'an unknown role': { messages: [{ role: 'observer', content: 'x' }] },
}

function chatOf(over: Partial<ChatInput>): ChatInput {
  return {
    kind: 'chat',
    messages: [],
    tools: null,
    addGenerationPrompt: true,
    continueFinalMessage: false,
    templateArguments: {},
    template: null,
    ...over,
  }
}

type Rendered = { readonly text: string } | { readonly error: string }

function ownRendering(template: string, chat: ChatInput): Rendered {
  try {
    return { text: renderChat(template, chat, FACTS) }
  } catch (error) {
    return { error: (error as Error).message }
  }
}

/** What transformers gives Jinja; undefined where messages are refused before any template. */
function variablesOf(template: string, chat: ChatInput): object | undefined {
  try {
    return {
      messages: conversationOf(chat.messages, template),
      tools: toolsOf(chat.tools),
      documents: null,
      add_generation_prompt: chat.addGenerationPrompt,
      ...FACTS.specialTokens,
      ...chat.templateArguments,
    }
  } catch (error) {
    if (error instanceof CacheError) return undefined
    throw error
  }
}

interface Published {
  readonly OLLAMA_CHAT_TEMPLATE_MAPPING: readonly { readonly model: string; readonly gguf: string }[]
}

interface Asked {
  readonly template: string
  readonly variables: object | undefined
  readonly wallMs: number
}

function officialRenderings(python: string, asked: readonly Asked[]): Rendered[] {
  const file = join(folder, 'chats.json')
  writeFileSync(file, JSON.stringify(asked))
  return JSON.parse(execFileSync(python, [SCRIPT, 'render', file], { encoding: 'utf8', maxBuffer: 2 ** 28 }))
}

let environment: PythonEnvironment
let folder: string
const templates = new Map<string, string>()

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kvtier-chats-'))
  environment = pythonEnvironment('requirements-tokenizers.txt')
  if ('missing' in environment && process.env.CI === 'true') throw new Error(environment.missing)
  const { OLLAMA_CHAT_TEMPLATE_MAPPING: published } = (await import(PUBLISHED)) as Published
  for (const { model, gguf } of published) templates.set(`${model} ${gguf.length}`, gguf)
  templates.set('Qwen3 (bundled)', (await bundledModels())[0]!.templates.default!)
}, 300_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('chat templates of published models', () => {
  it.for(Object.keys(CHATS))('render as in Python: %s', { timeout: 120_000 }, (what, context) => {
    if ('missing' in environment) return context.skip(environment.missing)
    const chat = chatOf(CHATS[what]!)
    const asked = [...templates]
      .map(([name, template]) => ({ name, template, variables: variablesOf(template, chat), wallMs: FACTS.wallMs }))
      .filter(({ variables }) => variables !== undefined)
    expect(asked.length).toBeGreaterThan(90)
    const answers = officialRenderings(environment.python, asked)
    const wrong: object[] = []
    for (const [index, { name, template }] of asked.entries()) {
      const own = ownRendering(template, chat)
      const official = answers[index]!
      const isSame = 'text' in official ? 'text' in own && own.text === official.text : 'error' in own
      if (!isSame) wrong.push({ name, own, official })
    }
    expect(wrong.slice(0, 5), `${wrong.length} of ${asked.length} templates differ`).toEqual([])
  })
})

/** Expressions in which JavaScript and Python are not of one mind. */
const EXPRESSIONS = [
  ...['true', 'none', '1.5', '1e20', '-0.00001', '[1, "a", none]', '{"a": [true]}', '("a",)', 'nothing'],
  ...['"it\'s"', "['it\"s']", '["\\n\\t\\u00e9\\u200b\u{1f600}"]', '{"a": "\\\\"}'],
  ...['"a" + 1', '1 + "a"', '"a" + none', '"a" + [1]', '"a" + nothing', '1 + 1.5', '[1] + [2]', '1 + none'],
  ...['"a" ~ 1', '"a" ~ none', '"a" ~ true', '"a" ~ [1]', '"a" ~ nothing', '1.0 ~ "b"'],
  ...[
    '1 == 1.0',
    '"1" == 1',
    '[1] == [1]',
    '[] == ""',
    'nothing == none',
    '{"a": 1} == {"a": 1}',
    'true == 1',
    '0 == ""',
  ],
  ...[
    '1 in [1.0]',
    '"a" in ["a"]',
    '[1] in [[1]]',
    '"a" in "bac"',
    '"a" in {"a": 1}',
    '"a" not in nothing',
    '1 in "1"',
  ],
  ...[
    '" \\ufeff\\x1c a ".strip()',
    '"xxaxx".strip("x")',
    '"xxaxx".lstrip("x")',
    '"\\n a \\n".rstrip("\\n")',
    '"abc".strip("")',
  ],
  ...['"  a " | trim', '"xax" | trim("x")', '1 | trim', 'none | trim', 'nothing | trim'],
  ...['[1, none, true, "a"] | join("-")', '"abc" | join("-")', '[] | join', 'nothing | join(",")', '[[1]] | join'],
  ...['[0, 1, ""] | reject | list', '[0, 1, 2] | select("odd") | list', '["a", "b"] | reject("equalto", "a") | list'],
  ...['[1, none] | select("none") | list', '[1, 2] | reject("in", [2]) | list', '"ab" | list', 'nothing | list'],
  ...[
    'nothing | length',
    '"\u{1f600}" | length',
    '"\u{1f600}a"[1]',
    '"\u{1f600}a"[0]',
    '"\u{1f600}a"[:1]',
    '[1, 1] | unique | list',
    '"b a" | sort | join',
    'nothing | upper',
  ],
  ...['nothing | default("d")', 'none | default("d")', '"" | default("d", true)', 'nothing.member', 'none.member'],
  ...['{"b": 1, "a": [1.5, none, true]} | tojson', '{"b": 1, "A": {}} | tojson(indent=2, sort_keys=true)'],
  ...[
    '"<\\u00e9\u{1f600}&>" | tojson(ensure_ascii=true)',
    '[] | tojson(indent=4)',
    '[1, 2] | tojson(separators=(",", ":"))',
  ],
  ...['true | string', '[true] | string', '{"a": none} | string', '1.0 | string', '"a" is iterable', '{} is iterable'],
  ...[
    'nothing is iterable',
    'none is iterable',
    'true is number',
    '1 is iterable',
    '"abc"[1:]',
    '[1, 2, 3][::-1]',
    '"abc"[-1]',
  ],
  ...[
    '"a,b,,c".split(",")',
    '" a  b ".split()',
    '"abc".startswith("a")',
    '"aXbX".replace("X", "-", 1)',
    '"abc".upper()',
  ],
  ...['7 // 2', '-7 // 2', '7 % 3', '-7 % 3', '2 ** 3', '2 ** -1', '7 / 2', '1 if nothing else 2', 'not nothing'],
  ...[
    'range(3) | list',
    '"hello world" | title',
    '"hELLO" | capitalize',
    '"x".join(["a", "b"])',
    '3 | int',
    '"12" | int',
    '"x" | int(5)',
  ],
]

/** Statements in which they are not. */
const STATEMENTS = [
  '{% for a in "ab" %}{{ a }}{{ loop.index }}{% endfor %}',
  '{% for a in nothing %}{{ a }}{% else %}none{% endfor %}',
  '{% for a in none %}{{ a }}{% endfor %}',
  '{% for a in [1, 2, 3] if a is odd %}{{ a }},{% endfor %}',
  '{% for k, v in {"a": 1}.items() %}{{ k }}={{ v }}{% endfor %}',
  '{% set x = none %}{{ x }}{% set y %}in{% endset %}{{ y }}',
  '{% set ns = namespace(a=none) %}{{ ns.a }}{% set ns.a = 1.5 %}{{ ns.a }}',
  '{% macro m(a, b=none) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m("x", true) }}',
  '{% if tools is defined %}d{% endif %}{% if tools is not none %}n{% endif %}{{ tools }}{{ documents }}',
  '  {% if true %}\n  a\n  {% endif %}\n  {#- c -#} b\n\n',
  '{% generation %}a{{ 1 }}{% endgeneration %}',
  '{% for a in [1, 2, 3] %}{% if a == 2 %}{% continue %}{% endif %}{{ a }}{% endfor %}',
  '{{ strftime_now("%Y-%m-%d %H:%M %d %b %B") }}{{ messages[0].content }}{{ messages[0]["role"] }}',
  '{{ raise_exception("no") }}',
]

describe('a template', () => {
  it('never gives another text than in Python, though it may be refused', (context) => {
    if ('missing' in environment) return context.skip(environment.missing)
    const chat = chatOf(CHATS['one message']!)
    const all = [...EXPRESSIONS.map((expression) => `{{ ${expression} }}`), ...STATEMENTS]
    const asked = all.map((template) => ({ template, variables: variablesOf(template, chat), wallMs: FACTS.wallMs }))
    const answers = officialRenderings(environment.python, asked)
    const wrong: object[] = []
    let same = 0
    for (const [index, { template }] of asked.entries()) {
      const own = ownRendering(template, chat)
      const official = answers[index]!
      if ('text' in own && !('text' in official && own.text === official.text)) wrong.push({ template, own, official })
      if ('text' in own === 'text' in official) same += 1
    }
    expect(wrong).toEqual([])
    expect(same / asked.length).toBeGreaterThan(0.9) // a bound on what is refused without need
  })
})
