import type { Terminal } from './terminal.ts'

/** Fine, failed at run time, bad usage or configuration. */
export type ExitCode = 0 | 1 | 2

/** One option of a command: parsing, help and completion all read this. */
export interface OptionSpec {
  /** Long name without dashes. */
  readonly name: string
  /** What stands for the value in help (`N`, `FILE`). Absent: a switch. */
  readonly value?: string
  /** May stand alone for true, and be turned off as `--no-NAME`. */
  readonly isSwitch?: boolean
  /** May be given more than once, or as words with commas between them. */
  readonly isRepeatable?: boolean
  readonly help: string
  /** Shown only; a command applies its own defaults. */
  readonly default?: string
  readonly choices?: readonly string[]
}

export interface PositionalSpec {
  readonly name: string
  readonly help: string
  readonly choices?: readonly string[]
  readonly isOptional?: boolean
}

/** One command. A name of two words (`token create`) is a command of a group. */
export interface CommandSpec {
  readonly name: string
  readonly summary: string
  /** Paragraphs under the usage line. */
  readonly description?: string
  readonly positionals: readonly PositionalSpec[]
  readonly options: readonly OptionSpec[]
  /** Options that come from another table (configuration), after the command's own. */
  readonly moreOptions?: () => Promise<readonly OptionSpec[]>
  /** Lines to type, each with what it does. */
  readonly examples: readonly (readonly [line: string, what: string])[]
  /** The command's code, loaded only when it runs. */
  readonly load: () => Promise<CommandModule>
}

export interface CommandModule {
  run(call: CommandCall): Promise<ExitCode>
}

/** A command line, parsed and checked against its spec. */
export interface CommandCall {
  readonly spec: CommandSpec
  readonly positionals: readonly string[]
  /** By option name; a switch is `true`, repeated values are joined by commas. Options not given are absent. */
  readonly options: Readonly<Record<string, string | true>>
  /** Everything behind the command's name, as typed. */
  readonly argv: readonly string[]
  readonly isJson: boolean
  readonly terminal: Terminal
}

/** Options that every command has. */
export const COMMON_OPTIONS: readonly OptionSpec[] = [
  { name: 'json', help: 'Print one JSON object on stdout; logs and progress stay on stderr.' },
  { name: 'help', help: 'Show this help.' },
]

/** All options of a command, the common ones last. */
export async function optionsOf(spec: CommandSpec): Promise<readonly OptionSpec[]> {
  return [...spec.options, ...((await spec.moreOptions?.()) ?? []), ...COMMON_OPTIONS]
}

/** Prints a command's result: the object with `--json`, else the text. */
export function answer(call: CommandCall, json: object, text: () => string): void {
  call.terminal.out(call.isJson ? JSON.stringify(json) : text())
}
