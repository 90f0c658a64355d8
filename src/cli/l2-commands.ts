import type { CommandSpec, OptionSpec } from './command.ts'
import { HTTP_OPTIONS } from './engine-http.ts'

const NAME = { name: 'NAME', help: 'Name of the adapter.' }
const RATE: OptionSpec = {
  name: 'rate',
  value: 'SIZE',
  help: 'Bytes of objects a second at most, such as 64MiB; 0B = no limit.',
}
const BACKGROUND: OptionSpec = { name: 'background', help: 'Only start the job; kvtier l2 jobs shows it.' }
const ADMIN = 'Needs a token of scope admin where the engine asks for tokens.'

/** What operators do with the external storage of a running engine. */
export const L2_COMMANDS: readonly CommandSpec[] = [
  {
    name: 'l2 list',
    summary: 'List the L2 adapters of a running engine, or the objects of one.',
    description:
      'Origin config: from the configuration, and back at every start. Origin runtime: added while the engine ran, ' +
      'kept in its data directory until it is removed.',
    positionals: [{ ...NAME, help: 'List the objects of this adapter.', isOptional: true }],
    options: [{ name: 'limit', value: 'N', help: 'Objects at most.', default: '100' }, ...HTTP_OPTIONS],
    examples: [
      ['kvtier l2 list', 'Adapters, their state, and what they hold'],
      ['kvtier l2 list disk --limit 1000 --json', 'Objects, for a script'],
    ],
    load: () => import('./l2-list.ts'),
  },
  {
    name: 'l2 stats',
    summary: 'Count the objects of an adapter by model and cache salt.',
    positionals: [NAME],
    options: [BACKGROUND, ...HTTP_OPTIONS],
    examples: [['kvtier l2 stats disk', 'Who fills it']],
    load: () => import('./l2-job.ts'),
  },
  {
    name: 'l2 verify',
    summary: 'Read every object of an adapter and verify its checksum.',
    description:
      'The engine does it in the background, at a bounded rate, and goes on when this command is interrupted. Corrupt ' +
      'objects are quarantined and never served. Exit code 1 when there were some, or when objects could not be read. ' +
      ADMIN,
    positionals: [NAME],
    options: [{ ...RATE, default: '128MiB' }, BACKGROUND, ...HTTP_OPTIONS],
    examples: [
      ['kvtier l2 verify disk', 'With a bar'],
      ['kvtier l2 verify disk --rate 32MiB --background', 'Beside a busy engine'],
    ],
    load: () => import('./l2-job.ts'),
  },
  {
    name: 'l2 evacuate',
    summary: 'Copy every object of an adapter to another one.',
    description:
      'Nothing is taken away from the source. Run again, it goes on where it was. Exit code 1 when objects could not ' +
      `be copied. ${ADMIN}`,
    positionals: [NAME],
    options: [
      { name: 'to', value: 'NAME', help: 'The adapter that gets them.' },
      { ...RATE, default: '256MiB' },
      BACKGROUND,
      ...HTTP_OPTIONS,
    ],
    examples: [['kvtier l2 evacuate disk --to bucket', 'Before a disk is changed']],
    load: () => import('./l2-job.ts'),
  },
  {
    name: 'l2 jobs',
    summary: 'List the jobs over all objects of an adapter: running and recent ones.',
    positionals: [],
    options: HTTP_OPTIONS,
    examples: [],
    load: () => import('./l2-job.ts'),
  },
  {
    name: 'l2 cancel',
    summary: 'End a job. What it did stays done.',
    positionals: [{ name: 'JOB', help: 'Its id, as l2 jobs shows it.' }],
    options: HTTP_OPTIONS,
    examples: [],
    load: () => import('./l2-job.ts'),
  },
  {
    name: 'l2 add',
    summary: 'Attach an L2 adapter to a running engine.',
    description:
      'The options are those of --l2 and of the config file. The adapter is asked last. It is kept in the data ' +
      `directory of the engine and comes back at its next start, until it is removed. ${ADMIN}`,
    positionals: [{ name: 'ADAPTER', help: 'As name=NAME,type=TYPE,capacity=SIZE,...; see --l2.', isOptional: true }],
    options: [
      {
        name: 'file',
        value: 'FILE',
        help: 'YAML or JSON mapping of the options: a command line shows secrets to everybody on the machine.',
      },
      ...HTTP_OPTIONS,
    ],
    examples: [
      ['kvtier l2 add name=big,type=filesystem,path=/mnt/big/kv,capacity=2TiB', 'A second disk'],
      ['kvtier l2 add --file bucket.yaml', 'With secrets in a file'],
    ],
    load: () => import('./l2-change.ts'),
  },
  {
    name: 'l2 drain',
    summary: 'Stop giving new work to an adapter.',
    description:
      'It gets no stores and no lookups any more; what was promised is served. With --wait, exit code 1 when the ' +
      `deadline passed with work left, which is then listed. ${ADMIN}`,
    positionals: [NAME],
    options: [
      { name: 'deadline', value: 'TIME', help: 'When to stop waiting for work in flight.', default: '10m' },
      { name: 'evacuate-to', value: 'NAME', help: 'Copy its objects to this adapter meanwhile.' },
      { ...RATE, help: 'Bytes a second of that copy at most; 0B = no limit.', default: '256MiB' },
      { name: 'wait', help: 'Show how far it is, until it is drained or the deadline has passed.' },
      ...HTTP_OPTIONS,
    ],
    examples: [
      ['kvtier l2 drain disk --wait', 'Then kvtier l2 remove disk'],
      ['kvtier l2 drain disk --evacuate-to big --deadline 2h --wait', 'Move to another disk'],
    ],
    load: () => import('./l2-change.ts'),
  },
  {
    name: 'l2 undrain',
    summary: 'Give work to a draining adapter again. Ends its evacuation.',
    positionals: [NAME],
    options: HTTP_OPTIONS,
    examples: [],
    load: () => import('./l2-change.ts'),
  },
  {
    name: 'l2 remove',
    summary: 'Detach an adapter that is drained. Its objects stay where they are.',
    description: `One that is in the configuration comes back at the next start. ${ADMIN}`,
    positionals: [NAME],
    options: [
      { name: 'force', help: 'Also when it is active or has work in flight, which is ended.' },
      ...HTTP_OPTIONS,
    ],
    examples: [['kvtier l2 remove disk', 'After kvtier l2 drain disk --wait']],
    load: () => import('./l2-change.ts'),
  },
]
