import { answer, type CommandCall, type CommandSpec, type ExitCode, type OptionSpec, optionsOf } from './command.ts'
import { COMMANDS } from './commands.ts'

/** `kvtier completion bash|zsh|fish`. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const shell = call.positionals[0]!
  const script = await completionScript(shell, COMMANDS)
  answer(call, { shell, script }, () => script.trimEnd())
  return 0
}

interface Completed {
  readonly spec: CommandSpec
  readonly options: readonly OptionSpec[]
}

/** The script for a shell, generated from the command table. */
export async function completionScript(shell: string, commands: readonly CommandSpec[]): Promise<string> {
  const completed = await Promise.all(commands.map(async (spec) => ({ spec, options: await optionsOf(spec) })))
  if (shell === 'bash') return bashScript(completed)
  return shell === 'zsh' ? zshScript(completed) : fishScript(completed)
}

function firstWords(commands: readonly Completed[]): string[] {
  return [...new Set(commands.map(({ spec }) => spec.name.split(' ')[0]!))]
}

function groups(commands: readonly Completed[]): Map<string, string[]> {
  const members = new Map<string, string[]>()
  for (const { spec } of commands) {
    const [first, second] = spec.name.split(' ')
    if (second !== undefined) members.set(first!, [...(members.get(first!) ?? []), second])
  }
  return members
}

function bashScript(commands: readonly Completed[]): string {
  const lines = [
    '# bash completion for kvtier; printed by `kvtier completion bash`.',
    '_kvtier() {',
    `  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} command=\${COMP_WORDS[1]}`,
    '  COMPREPLY=()',
    '  if [[ $COMP_CWORD -eq 1 ]]; then',
    `    COMPREPLY=($(compgen -W '${firstWords(commands).join(' ')} --help --version' -- "$cur"))`,
    '    return',
    '  fi',
  ]
  for (const [group, members] of groups(commands)) {
    lines.push(
      `  if [[ $command == ${group} ]]; then`,
      `    if [[ $COMP_CWORD -eq 2 ]]; then COMPREPLY=($(compgen -W '${members.join(' ')}' -- "$cur")); return; fi`,
      `    command="${group} \${COMP_WORDS[2]}"`,
      '  fi',
    )
  }
  lines.push('  case "$command:$prev" in')
  for (const { spec, options } of commands) {
    for (const option of options) {
      if (option.choices !== undefined) {
        lines.push(
          `    '${spec.name}:--${option.name}') COMPREPLY=($(compgen -W '${option.choices.join(' ')}' -- "$cur")); return ;;`,
        )
      } else if (takesPath(option)) {
        lines.push(`    '${spec.name}:--${option.name}') COMPREPLY=($(compgen -f -- "$cur")); return ;;`)
      }
    }
  }
  lines.push('  esac', '  case "$command" in')
  for (const { spec, options } of commands) {
    const words = [...(spec.positionals[0]?.choices ?? []), ...options.map((option) => `--${option.name}`)]
    const files = spec.positionals[0]?.name === 'FILE' ? ' -f' : ''
    lines.push(`    '${spec.name}') COMPREPLY=($(compgen${files} -W '${words.join(' ')}' -- "$cur")) ;;`)
  }
  lines.push('  esac', '}', 'complete -o filenames -F _kvtier kvtier')
  return `${lines.join('\n')}\n`
}

function zshScript(commands: readonly Completed[]): string {
  const lines = [
    '#compdef kvtier',
    '# zsh completion for kvtier; printed by `kvtier completion zsh`.',
    '_kvtier() {',
    '  local command=$words[2]',
    '  if (( CURRENT == 2 )); then',
    `    _values command ${firstWords(commands).map(zshWord).join(' ')}`,
    '    return',
    '  fi',
  ]
  for (const [group, members] of groups(commands)) {
    lines.push(
      `  if [[ $command == ${group} ]]; then`,
      `    if (( CURRENT == 3 )); then _values command ${members.map(zshWord).join(' ')}; return; fi`,
      `    command="${group} $words[3]"`,
      '    shift words; (( CURRENT-- ))',
      '  fi',
    )
  }
  lines.push('  shift words; (( CURRENT-- ))', '  case $command in')
  for (const { spec, options } of commands) {
    const args = options.map((option) => zshWord(zshOption(option)))
    for (const positional of spec.positionals) {
      const what = positional.choices === undefined ? '_files' : `(${positional.choices.join(' ')})`
      args.push(zshWord(`:${positional.name}:${what}`))
    }
    lines.push(`    '${spec.name}') _arguments ${args.join(' ')} ;;`)
  }
  lines.push('  esac', '}', 'compdef _kvtier kvtier')
  return `${lines.join('\n')}\n`
}

function zshOption(option: OptionSpec): string {
  const help = option.help.replace(/[[\]:\\]/g, '\\$&')
  if (option.value === undefined || option.isSwitch) return `--${option.name}[${help}]`
  const values = option.choices === undefined ? (takesPath(option) ? '_files' : ' ') : `(${option.choices.join(' ')})`
  return `--${option.name}[${help}]:${option.value}:${values}`
}

function zshWord(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

function fishScript(commands: readonly Completed[]): string {
  const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
  const lines = ['# fish completion for kvtier; printed by `kvtier completion fish`.', 'complete -c kvtier -f']
  for (const word of firstWords(commands)) {
    const summary = commands.find(({ spec }) => spec.name === word)?.spec.summary ?? `Commands of ${word}.`
    lines.push(`complete -c kvtier -n __fish_use_subcommand -a ${word} -d ${quoted(summary)}`)
  }
  for (const [group, members] of groups(commands)) {
    lines.push(`complete -c kvtier -n '__fish_seen_subcommand_from ${group}' -a ${quoted(members.join(' '))}`)
  }
  for (const { spec, options } of commands) {
    const seen = spec.name.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`)
    const when = quoted(seen.join('; and '))
    const [positional] = spec.positionals
    if (positional?.choices !== undefined) {
      lines.push(`complete -c kvtier -n ${when} -a ${quoted(positional.choices.join(' '))}`)
    } else if (positional !== undefined) lines.push(`complete -c kvtier -n ${when} -F`)
    for (const option of options) {
      const choices = option.choices === undefined ? '' : ` -a ${quoted(option.choices.join(' '))}`
      const value = option.value === undefined || option.isSwitch ? '' : takesPath(option) ? ' -r -F' : ` -x${choices}`
      lines.push(`complete -c kvtier -n ${when} -l ${option.name}${value} -d ${quoted(option.help)}`)
    }
  }
  return `${lines.join('\n')}\n`
}

function takesPath(option: OptionSpec): boolean {
  return option.value === 'FILE' || option.value === 'DIR'
}
