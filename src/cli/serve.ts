import type { CommandCall, ExitCode } from './command.ts'

export async function run(_call: CommandCall): Promise<ExitCode> {
  return 1
}
