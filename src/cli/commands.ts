import type { CommandSpec } from './command.ts'
import { DATA_DIR_OPTION } from './data-dir-option.ts'
import { MP_ADDRESS_OPTION } from './engine-addresses.ts'
import { HTTP_OPTIONS } from './engine-http.ts'
import { L2_COMMANDS } from './l2-commands.ts'
import { LOOKUP_COMMANDS } from './lookup-commands.ts'
import { PROMETHEUS_OPTION } from './prometheus-option.ts'
import { replayOptions } from './replay-options.ts'
import { serveOptions } from './serve-options.ts'
import { TOKEN_FILE_OPTION } from './token-file-option.ts'
import { TOKENIZER_DIR_OPTION } from './tokenizer-dir-option.ts'

/** What `kvtier print` can print. */
export const PRINT_TOPICS = [
  'metrics',
  'options',
  'adapters',
  'errors',
  'events',
  'models',
  'activities',
  'docs',
  'dashboard',
  'rules',
] as const

/** Every command. Help, completion and parsing read this; each command's code is loaded only when it runs. */
export const COMMANDS: readonly CommandSpec[] = [
  {
    name: 'serve',
    summary: 'Run the engine until it is told to stop.',
    description:
      'Every option is also an environment variable (--l1-size is KVTIER_L1_SIZE) and a key of the config file ' +
      '(size under l1). Flags win over the environment, which wins over the file.',
    positionals: [],
    options: [],
    moreOptions: serveOptions,
    examples: [
      ['kvtier serve', 'Defaults: a simulated GPU, L1 in shared memory, L2 in ./kvtier-data'],
      ['kvtier serve --config kvtier.yaml --l1-size 16GiB', 'A file, with one option overridden'],
      [
        'kvtier serve --http-port 0 --mp-port 0 --prometheus-port 0 --data-dir ./second',
        'A second engine on free ports',
      ],
    ],
    load: () => import('./serve.ts'),
  },
  {
    name: 'replay',
    summary: 'Drive the whole engine with a request trace and say what it hit.',
    description:
      'A virtual inference server asks the engine for each request of the trace, takes what is cached, computes ' +
      'the rest at the prefill rate, and stores it: the same lookup, lease, reserve and commit code as in service. ' +
      'By default requests come at the times of the trace; --speed N makes it faster, --flat-out runs on a virtual ' +
      'clock, one request after another.\n\n' +
      'With --metadata-only no bytes are kept or moved. A trace of the format mooncake has no texts, so the keys of its ' +
      'chunks are derived from its hash ids; prompts of agent-text are tokenized with the tokenizer of --model, and have ' +
      'the keys that the engine gives them in service.\n\n' +
      '--sweep prints the hit ratio of every L1 size and policy beside exact LRU and the best possible (Belady).',
    positionals: [{ name: 'FILE', help: 'The trace, JSON lines; a name that ends in .gz is unzipped.' }],
    options: replayOptions,
    examples: [
      ['kvtier replay trace.jsonl --flat-out', 'The whole stack with real bytes, as fast as it goes'],
      [
        'kvtier replay trace.jsonl --speed 60 --prometheus-port 9090',
        'An hour a minute, watched by a Prometheus server',
      ],
      [
        'kvtier replay trace.jsonl --metadata-only --flat-out --tiers l1 --l1-chunks 20000 --json',
        'The hit ratio of an L1 of 20,000 chunks, for a script',
      ],
      ['kvtier replay trace.jsonl --sweep', 'Which L1 size pays'],
      [
        'kvtier replay agents.jsonl.gz --format agent-text --metadata-only --flat-out --reference',
        'Real prompts of agents, beside exact LRU and Belady',
      ],
    ],
    load: () => import('./replay.ts'),
  },
  {
    name: 'check-config',
    summary: 'Say what serve would run with, and where each value comes from.',
    positionals: [],
    options: [],
    moreOptions: serveOptions,
    examples: [['kvtier check-config --config kvtier.yaml', 'Before a restart']],
    load: () => import('./check-config.ts'),
  },
  {
    name: 'top',
    summary: 'Watch one engine, or a fleet through its Prometheus server.',
    description:
      'Without --prometheus it asks the engine itself (GET /status) and shows rates between two readings. ' +
      'On a terminal it redraws itself until Ctrl-C; elsewhere, or with --once, it prints one view and ends.',
    positionals: [],
    options: [
      ...HTTP_OPTIONS,
      PROMETHEUS_OPTION,
      { name: 'interval', value: 'SECONDS', help: 'Time between two views.', default: '2' },
      { name: 'once', help: 'Print one view and end.' },
    ],
    examples: [
      ['kvtier top', 'The engine of ./kvtier-data'],
      ['kvtier top --prometheus http://prometheus:9090', 'Every engine that the server knows'],
    ],
    load: () => import('./top.ts'),
  },
  {
    name: 'query',
    summary: 'Ask a Prometheus server about a fleet: hit rate and health, or any expression.',
    positionals: [{ name: 'EXPRESSION', help: 'PromQL, asked once, now.', isOptional: true }],
    options: [
      PROMETHEUS_OPTION,
      {
        name: 'by',
        value: 'GROUP',
        help: 'Rows of the fleet report.',
        choices: ['model', 'tenant', 'engine'],
        default: 'model',
      },
      { name: 'names', help: 'List the cache metrics that the server has.' },
      { name: 'series', value: 'SELECTOR', help: 'List the series of a selector with their labels.' },
      TOKEN_FILE_OPTION,
    ],
    examples: [
      ['kvtier query --prometheus http://prometheus:9090', 'Hit rate and health by model'],
      ['kvtier query --prometheus http://prometheus:9090 --by engine', 'The same by engine'],
      [
        "kvtier query 'sum(rate(cache_mp_l1_evicted_chunks_total[5m]))' --prometheus http://prometheus:9090",
        'One expression',
      ],
    ],
    load: () => import('./query.ts'),
  },
  {
    name: 'manifests',
    summary: 'Write the Kubernetes objects of an engine definition.',
    description:
      'Reads an engine definition and prints a Deployment (or DaemonSet) with the engine beside the inference server, ' +
      'its options, the headless Service NAME-metrics, and, where asked for, ServiceMonitor, PrometheusRule and ' +
      'dashboard. A field that is wrong is named with its path.',
    positionals: [{ name: 'FILE', help: 'The engine definition, YAML; config/k8s/engine.yaml is an example.' }],
    options: [
      { name: 'chart', value: 'DIR', help: 'Write a Helm chart of the same objects into this folder instead.' },
    ],
    examples: [
      ['kvtier manifests engine.yaml | kubectl apply -f -', 'Runs the engine on a cluster'],
      ['kvtier manifests engine.yaml --chart chart && helm install qwen chart', 'The same by Helm'],
    ],
    load: () => import('./manifests.ts'),
  },
  {
    name: 'print',
    summary: 'Print a list, the tables of the README, the Grafana dashboard or the Prometheus rules.',
    positionals: [{ name: 'TOPIC', help: 'What to print.', choices: PRINT_TOPICS }],
    options: [
      {
        name: 'write',
        help: 'With docs: bring the tables of the README up to date. With dashboard or rules: write the file.',
      },
      {
        name: 'file',
        value: 'FILE',
        help: 'The file to write. Default: README.md for docs, a file under config/ otherwise.',
      },
      { ...TOKENIZER_DIR_OPTION, help: `With models: ${TOKENIZER_DIR_OPTION.help.toLowerCase()}` },
    ],
    examples: [
      ['kvtier print metrics', 'Every metric with its meaning'],
      ['kvtier print options --json', 'Every option with flag, variable, file key and default'],
      ['kvtier print docs --write', 'After a change of a catalogue'],
      ['kvtier print dashboard > kvtier.json', 'A dashboard to import into Grafana'],
    ],
    load: () => import('./print.ts'),
  },
  {
    name: 'token create',
    summary: 'Create a bearer token for the HTTP API.',
    positionals: [],
    options: [
      {
        name: 'scope',
        value: 'NAME',
        isRepeatable: true,
        help: 'What the token may do; may be given again.',
        choices: ['read', 'inference', 'admin'],
      },
      { name: 'name', value: 'TEXT', help: 'Whom or what it is for.' },
      { name: 'ttl', value: 'TIME', help: 'Life of the token, such as 30d.', default: 'until revoked' },
      DATA_DIR_OPTION,
    ],
    examples: [
      ['kvtier token create --scope admin --name alice', 'Printed once; only a hash is kept'],
      ['kvtier token create --scope read --ttl 1h --json', 'For a script'],
    ],
    load: () => import('./token.ts'),
  },
  {
    name: 'token list',
    summary: 'List the tokens of a data directory.',
    positionals: [],
    options: [DATA_DIR_OPTION],
    examples: [],
    load: () => import('./token.ts'),
  },
  {
    name: 'token revoke',
    summary: 'End a token.',
    positionals: [{ name: 'ID', help: 'The id that create and list show.' }],
    options: [DATA_DIR_OPTION],
    examples: [],
    load: () => import('./token.ts'),
  },
  {
    name: 'status',
    summary: 'Show the state of a running engine.',
    positionals: [],
    options: HTTP_OPTIONS,
    examples: [
      ['kvtier status', 'The engine of this directory'],
      ['kvtier status --url http://127.0.0.1:8080 --json', 'For a script'],
    ],
    load: () => import('./status.ts'),
  },
  {
    name: 'activities',
    summary: 'List or follow the audit trail: who did what to which resource.',
    description:
      'Newest first, a page at a time. Conditions are combined; --start is included, --end is not. Times are RFC 3339 ' +
      'with an offset, a date (UTC), or how long ago, such as 2h. kvtier print activities lists the actions.',
    positionals: [],
    options: [
      { name: 'user', value: 'NAME', help: 'Acts of this user: the name of a token, or of an operator.' },
      { name: 'action', value: 'NAME', help: 'Acts of one kind, such as cache-clear.' },
      { name: 'type', value: 'NAME', help: 'Acts on resources of a type, such as adapter.' },
      { name: 'resource', value: 'ID', help: 'Acts on one resource.' },
      { name: 'start', value: 'TIME', help: 'Acts from then on.' },
      { name: 'end', value: 'TIME', help: 'Acts before then.' },
      { name: 'page', value: 'N', help: 'Which page.', default: '1' },
      { name: 'size', value: 'N', help: 'Records of a page, 1 to 100.', default: '20' },
      { name: 'follow', help: 'Show what is new, oldest first, until Ctrl-C; an engine that restarts is waited for.' },
      ...HTTP_OPTIONS,
    ],
    examples: [
      ['kvtier activities', 'The last 20 acts'],
      ['kvtier activities --action token-create --start 30d', 'Tokens of the last month'],
      ['kvtier activities --follow --json', 'For a collector: one JSON object a line'],
    ],
    load: () => import('./activities.ts'),
  },
  {
    name: 'quarantine list',
    summary: 'List workers that may still copy though their leases have expired.',
    description:
      'The slots that they were given are kept: nobody can tell a process that does not answer to stop copying. They ' +
      'are free once the worker commits late, or registers again.',
    positionals: [],
    options: HTTP_OPTIONS,
    examples: [['kvtier quarantine list', 'When /readyz names the quarantine']],
    load: () => import('./quarantine.ts'),
  },
  {
    name: 'quarantine release',
    summary: 'Use the quarantined slots of a worker again.',
    description:
      'Only when the process of the worker is gone: one that still copies would then read or write the chunks of ' +
      'others. Needs a token of scope admin where the engine asks for tokens.',
    positionals: [{ name: 'WORKER', help: 'Its id, as quarantine list shows it.', isOptional: true }],
    options: [{ name: 'all', help: 'Of every worker.' }, ...HTTP_OPTIONS],
    examples: [['kvtier quarantine release 1234567890', 'After the worker was killed']],
    load: () => import('./quarantine.ts'),
  },
  {
    name: 'quota list',
    summary: 'Show what cache salts hold, and may hold.',
    positionals: [],
    options: HTTP_OPTIONS,
    examples: [['kvtier quota list', 'Salts with a quota of their own or bytes, the largest in L1 first']],
    load: () => import('./quota.ts'),
  },
  {
    name: 'quota set',
    summary: 'Set what a cache salt may hold, over all its models.',
    description:
      'In force at once, and kept for the next start. A limit that is not given is the default of ' +
      '--quota-default-l1 and --quota-default-l2; 0 is no limit.',
    positionals: [{ name: 'SALT', help: 'The cache salt; "" is the empty one.' }],
    options: [
      { name: 'l1', value: 'SIZE', help: 'Bytes of L1.' },
      { name: 'l2', value: 'SIZE', help: 'Bytes of each L2 adapter that keeps account of salts.' },
      ...HTTP_OPTIONS,
    ],
    examples: [['kvtier quota set team-a --l1 2GiB --l2 50GiB', 'Both tiers']],
    load: () => import('./quota.ts'),
  },
  {
    name: 'quota remove',
    summary: 'Give a cache salt the default quota again.',
    positionals: [{ name: 'SALT', help: 'The cache salt; "" is the empty one.' }],
    options: HTTP_OPTIONS,
    examples: [],
    load: () => import('./quota.ts'),
  },
  ...LOOKUP_COMMANDS,
  ...L2_COMMANDS,
  {
    name: 'ping',
    summary: 'Measure the round trip to the MP wire of a running engine.',
    positionals: [],
    options: [
      MP_ADDRESS_OPTION,
      DATA_DIR_OPTION,
      { name: 'count', value: 'N', help: 'Pings, one after the other.', default: '100' },
    ],
    examples: [
      ['kvtier ping', 'The engine of this directory'],
      ['kvtier ping --address 127.0.0.1:5555 --count 10000 --json', 'For a script'],
    ],
    load: () => import('./ping.ts'),
  },
  {
    name: 'probe',
    summary: 'Say what this machine has: native code, GPUs, how fast each way to copy is, what is simulated.',
    positionals: [],
    options: [
      { name: 'cuda-library', value: 'FILE', help: 'The CUDA driver.', default: 'where systems have it' },
      { name: 'cuda-device', value: 'N', help: 'The GPU to measure.', default: '0' },
      { name: 'quick', help: 'Measure nothing.' },
      ...HTTP_OPTIONS,
    ],
    examples: [
      ['kvtier probe', 'Before the first serve'],
      ['kvtier probe --json', 'For a script'],
    ],
    load: () => import('./probe.ts'),
  },
  {
    name: 'selftest',
    summary: 'Store and retrieve a prompt over the MP wire, and compare every byte.',
    description:
      'Does what the worker and the scheduler of an inference server do, on this machine: register, store through ' +
      'shared memory, look up, retrieve. Leaves four small chunks of a model of its own behind, which eviction takes.',
    positionals: [],
    options: [MP_ADDRESS_OPTION, DATA_DIR_OPTION],
    examples: [['kvtier selftest', 'After a deployment']],
    load: () => import('./selftest.ts'),
  },
  {
    name: 'completion',
    summary: 'Print a completion script for a shell.',
    positionals: [{ name: 'SHELL', help: 'The shell.', choices: ['bash', 'zsh', 'fish'] }],
    options: [],
    examples: [
      ['kvtier completion bash > ~/.local/share/bash-completion/completions/kvtier', 'bash, from the next shell on'],
      ['kvtier completion zsh > "$fpath[1]/_kvtier"', 'zsh'],
      ['kvtier completion fish > ~/.config/fish/completions/kvtier.fish', 'fish'],
    ],
    load: () => import('./completion.ts'),
  },
]
