import { packageVersion } from '../app/version.ts'
import { answer, type CommandCall, type CommandSpec, type ExitCode } from './command.ts'
import { COMMANDS } from './commands.ts'
import { commandHelp, groupHelp, mainHelp } from './help.ts'
import { parseCommand, splitCommand, unknownCommand } from './parse-command.ts'
import { reportError, usageError } from './report-error.ts'
import type { Terminal } from './terminal.ts'

/** Runs one command line. Never throws: whatever fails becomes one line on stderr and an exit code. */
export async function runCli(argv: readonly string[], terminal: Terminal, commands = COMMANDS): Promise<ExitCode> {
  const isJson = argv.includes('--json')
  try {
    const name = argv[0]
    if (name === undefined || name === '--help' || name === '-h') {
      terminal.out(mainHelp(commands, terminal.hasColour))
      return name === undefined ? 2 : 0
    }
    if (name === '--version' || name === '-V') return printVersion(terminal, isJson)
    if (name === 'help') return await runCli([...argv.slice(1), '--help'], terminal, commands)
    return await runCommand(argv, terminal, commands)
  } catch (error) {
    return reportError(error, terminal, isJson)
  }
}

async function runCommand(
  argv: readonly string[],
  terminal: Terminal,
  commands: readonly CommandSpec[],
): Promise<ExitCode> {
  const { spec, group, rest } = splitCommand(argv, commands)
  if (spec === undefined) {
    if (group === undefined || (rest[0] !== undefined && !rest[0].startsWith('-'))) throw unknownCommand(argv, commands)
    const isAsked = rest.includes('--help') || rest.includes('-h')
    if (!isAsked && rest.includes('--json')) throw usageError(`${group} needs a command; see kvtier ${group} --help`)
    terminal.out(groupHelp(group, commands, terminal.hasColour))
    return isAsked ? 0 : 2
  }
  const endOfOptions = rest.indexOf('--')
  const switches = endOfOptions < 0 ? rest : rest.slice(0, endOfOptions)
  if (switches.includes('--help') || switches.includes('-h')) {
    terminal.out(await commandHelp(spec, terminal.hasColour))
    return 0
  }
  const call: CommandCall = { ...(await parseCommand(spec, rest)), terminal }
  return await (await spec.load()).run(call)
}

function printVersion(terminal: Terminal, isJson: boolean): ExitCode {
  const version = packageVersion()
  answer({ terminal, isJson } as CommandCall, { version, node: process.versions.node }, () => `kvtier ${version}`)
  return 0
}
