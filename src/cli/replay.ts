import type { CommandCall, ExitCode } from './command.ts'
import { usageError } from './report-error.ts'

/** `kvtier replay FILE`. */
export async function run(call: CommandCall): Promise<ExitCode> {
  throw usageError(`replay ${call.positionals[0]}: not wired`)
}
