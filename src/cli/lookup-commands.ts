import type { CommandSpec, OptionSpec } from './command.ts'
import { HTTP_OPTIONS } from './engine-http.ts'

const PROMPT_OPTIONS: readonly OptionSpec[] = [
  { name: 'model', value: 'NAME', help: 'The model: its tokenizer and, for messages, its chat template.' },
  { name: 'prompt', value: 'TEXT', help: 'The prompt.' },
  { name: 'file', value: 'FILE', help: 'A file with the prompt; - is stdin.' },
  { name: 'messages', value: 'FILE', help: 'A file with a chat: a JSON list of {role, content}; - is stdin.' },
  { name: 'salt', value: 'SALT', help: 'The cache salt.', default: 'the empty one' },
  { name: 'ranks', value: 'N', help: 'World size, where the model is registered with several.' },
]

/** Commands about the text of a prompt. */
export const LOOKUP_COMMANDS: readonly CommandSpec[] = [
  {
    name: 'lookup',
    summary: 'Say how much of a prompt engines hold, by tier, the warmest engine first.',
    description:
      'What a router asks before it sends a request somewhere. Nothing is leased, loaded, touched or counted. The ' +
      'tokens are those of whole chunks from the beginning of the prompt on.',
    positionals: [],
    options: [
      ...PROMPT_OPTIONS,
      ...HTTP_OPTIONS.map((option) => {
        return option.name === 'url' ? { ...option, isRepeatable: true, help: 'HTTP address of an engine.' } : option
      }),
    ],
    examples: [
      ['kvtier lookup --model Qwen/Qwen3-8B --file prompt.txt', 'The engine of this directory'],
      [
        'kvtier lookup --model Qwen/Qwen3-8B --messages chat.json --url http://a:8080 --url http://b:8080 --json',
        'Two engines, for a script: the field warmest names one',
      ],
    ],
    load: () => import('./lookup.ts'),
  },
  {
    name: 'prefetch',
    summary: 'Load what L2 holds of a prompt into L1, ahead of its request.',
    positionals: [],
    options: [...PROMPT_OPTIONS, ...HTTP_OPTIONS],
    examples: [['kvtier prefetch --model Qwen/Qwen3-8B --file prompt.txt', 'Before the request comes']],
    load: () => import('./lookup.ts'),
  },
]
