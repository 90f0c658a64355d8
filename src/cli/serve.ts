import type { CommandCall, ExitCode } from './command.ts'

/** `kvtier serve`. */
export async function run(_call: CommandCall): Promise<ExitCode> {
  return 1
}
