import { L1_POLICIES } from '../l1/options.ts'
import type { OptionSpec } from './command.ts'
import { TOKENIZER_DIR_OPTION } from './tokenizer-dir-option.ts'

/** The model of a trace with texts that names none: its tokenizer is always there. */
export const REPLAY_MODEL = 'Qwen/Qwen3-8B'

/** Options of `kvtier replay`. */
export const replayOptions: readonly OptionSpec[] = [
  {
    name: 'format',
    value: 'NAME',
    help: 'Format of the trace: hash ids of blocks (mooncake), or sessions of agents with their texts (agent-text).',
    default: 'mooncake',
    choices: ['mooncake', 'agent-text'],
  },
  {
    name: 'model',
    value: 'NAME',
    help: 'With agent-text: the model whose tokenizer makes tokens of the texts.',
    default: REPLAY_MODEL,
  },
  { ...TOKENIZER_DIR_OPTION, help: `With agent-text: ${TOKENIZER_DIR_OPTION.help.toLowerCase()}` },
  {
    name: 'chunk-tokens',
    value: 'N',
    help: 'With agent-text: tokens of one chunk. Blocks of mooncake have 512.',
    default: '256',
  },
  { name: 'limit', value: 'N', help: 'Stop after N requests.' },
  {
    name: 'partial-blocks',
    value: 'HOW',
    help: 'What to do with a last block that is not full: the engine stores whole chunks only (drop).',
    default: 'drop',
    choices: ['drop', 'count'],
  },
  { name: 'speed', value: 'N', help: 'N times as fast as the trace.', default: '1' },
  { name: 'flat-out', help: 'Virtual clock: no waiting, one request after another.' },
  { name: 'overlap', help: 'With --flat-out: requests overlap as their times and the prefill rate have it.' },
  { name: 'metadata-only', help: 'Keep and move no bytes.' },
  { name: 'tiers', value: 'LIST', help: 'Tiers to use: l1, with l0, l2 or both.', default: 'l0,l1,l2' },
  {
    name: 'policy',
    value: 'NAME',
    help: 'Eviction policy of L1.',
    default: 'lru',
    choices: L1_POLICIES,
  },
  { name: 'l0-size', value: 'SIZE', help: 'Bytes of the simulated GPU pool.', default: '256MiB' },
  { name: 'l1-size', value: 'SIZE', help: 'Bytes of L1.', default: '1GiB' },
  { name: 'l1-chunks', value: 'N', help: 'Size of L1 in chunks, instead of --l1-size.' },
  { name: 'l2-size', value: 'SIZE', help: 'Bytes of L2.', default: '4GiB' },
  {
    name: 'l2-dir',
    value: 'DIR',
    help: 'Directory in which L2 gets one of its own while it runs.',
    default: 'that of the system',
  },
  {
    name: 'kv-bytes-per-token',
    value: 'N',
    help: 'Bytes of one token in the cache. Real models have 32 to 512 KiB; the default is scaled down.',
    default: '64',
  },
  { name: 'prefill-rate', value: 'N', help: 'Tokens a second that the virtual server computes.', default: '20000' },
  { name: 'decode-rate', value: 'N', help: 'Tokens a second that each request puts out; 0 = at once.', default: '0' },
  {
    name: 'verify',
    value: 'WHICH',
    help: 'Retrieved chunks whose bytes are compared with what was stored.',
    default: 'sample',
    choices: ['none', 'sample', 'all'],
  },
  {
    name: 'reference',
    help: 'Say too what exact LRU and the best possible (Belady) hit with the same room. Holds 4 bytes a block reference.',
  },
  { name: 'sweep', help: 'Replay flat out over L1 sizes and policies, and print a table of hit ratios.' },
  {
    name: 'sweep-chunks',
    value: 'LIST',
    help: 'L1 sizes of the sweep, in chunks.',
    default: '2 to 50 % of the distinct chunks',
  },
  { name: 'prometheus-port', value: 'N', help: 'Serve GET /metrics on this port while it runs; 0 picks a free one.' },
]
