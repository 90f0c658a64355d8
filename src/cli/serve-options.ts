import type { OptionSpec } from './command.ts'

// What stands for the value of an option of each kind, by the first words of the kind.
const PLACEHOLDERS: readonly (readonly [kind: string, placeholder: string])[] = [
  ['size', 'SIZE'],
  ['ratio', 'RATIO'],
  ['whole number', 'N'],
  ['port', 'PORT'],
  ['duration', 'TIME'],
  ['true | false', 'BOOL'],
  ['path', 'FILE'],
  ['list', 'LIST'],
  ['adapters', 'ADAPTER'],
]

/** The options of `serve` and `check-config`: the rows of the configuration tables. */
export async function serveOptions(): Promise<readonly OptionSpec[]> {
  const { optionRows } = await import('../config/option-rows.ts')
  const { serveTables } = await import('../config/load-config.ts')
  const { fieldsOf } = await import('../config/load-options.ts')
  const fields = new Map(fieldsOf(serveTables).map((field) => [field.flag, field]))
  return optionRows(serveTables).map((row) => {
    const field = fields.get(row.flag)
    const words = row.type.split(' | ')
    const isChoice = words.length > 1 && field?.isSwitch !== true
    return {
      name: row.name,
      value: isChoice ? 'NAME' : row.name.endsWith('-dir') ? 'DIR' : placeholderOf(row.type),
      help: row.help,
      ...(row.default === '' ? {} : { default: row.default }),
      ...(isChoice ? { choices: words } : {}),
      ...(field?.isSwitch === true ? { isSwitch: true } : {}),
      ...(field?.isRepeatable === true ? { isRepeatable: true } : {}),
    }
  })
}

function placeholderOf(kind: string): string {
  return PLACEHOLDERS.find(([start]) => kind.startsWith(start))?.[1] ?? 'TEXT'
}
