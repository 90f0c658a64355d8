import { randomInt } from 'node:crypto'
import { MpClient } from '../client/mp-client.ts'
import { type SelfTestStep, selfTest } from '../client/self-test.ts'
import { SystemClock } from '../core/clock.ts'
import { SegmentFile } from '../native/segment-file.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { mpAddressOf } from './engine-addresses.ts'
import { textTable } from './table.ts'

/** `kvtier selftest`: one prompt through a running engine, over the MP wire and shared memory. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const address = mpAddressOf(call)
  const clock = new SystemClock()
  const client = new MpClient(address, { clock })
  const steps: SelfTestStep[] = []
  try {
    await selfTest(
      { client, clock, openSegment: (name) => SegmentFile.open(name), random: (limit) => randomInt(limit) },
      (step) => steps.push(step),
    )
  } finally {
    client.close()
  }
  answer(call, { ok: true, address, steps }, () => {
    const rows = steps.map(({ name, ms, detail }) => [name, ms.toFixed(2), detail])
    return `${textTable([{ title: 'step' }, { title: 'ms', align: 'right' }, { title: 'what' }], rows)}\n\nThe engine at ${address} is fine.`
  })
  return 0
}
