/** Columns that tables and help texts never go over. */
export const WIDTH_COLUMNS = 100
const GAP = 2

export interface Column {
  readonly title: string
  readonly align?: 'left' | 'right'
  /** May be broken over lines when the table is too wide. */
  readonly wraps?: boolean
}

/**
 * A plain-text table of at most 100 columns. The columns marked `wraps` give way first; when that is not
 * enough, text is cut and ends in an ellipsis. Cells may hold what clients sent: control characters become `?`.
 */
export function textTable(columns: readonly Column[], cells: readonly (readonly string[])[], indent = 0): string {
  const rows = cells.map((row) => row.map(printableCell))
  const widths = fittedWidths(columns, rows, WIDTH_COLUMNS - indent)
  const margin = ' '.repeat(indent)
  const lines: string[] = []
  const hasTitles = columns.some((column) => column.title !== '')
  if (hasTitles) {
    const titles = columns.map((column) => column.title)
    lines.push(...rowLines(columns, titles, widths, margin))
    lines.push(margin + widths.map((width) => '-'.repeat(width)).join(' '.repeat(GAP)))
  }
  for (const row of rows) lines.push(...rowLines(columns, row, widths, margin))
  return lines.join('\n')
}

function printableCell(cell: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
  return cell.replace(/[\u0000-\u001f\u007f-\u009f]/g, '?')
}

/** Breaks text at spaces into lines of at most `width` characters; a longer word stands alone, uncut. */
export function wrapText(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/\s+/)) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  lines.push(line)
  return lines
}

function fittedWidths(columns: readonly Column[], rows: readonly (readonly string[])[], room: number): number[] {
  const widths = columns.map((column, index) =>
    rows.reduce((widest, row) => Math.max(widest, (row[index] ?? '').length), column.title.length),
  )
  const shrinks = (isCandidate: (column: Column) => boolean, floor: number): void => {
    for (;;) {
      const excess = widths.reduce((sum, width) => sum + width, GAP * (columns.length - 1)) - room
      if (excess <= 0) return
      let widest = -1
      for (const [index, column] of columns.entries()) {
        if (isCandidate(column) && widths[index]! > floor && (widest < 0 || widths[index]! > widths[widest]!))
          widest = index
      }
      if (widest < 0) return
      widths[widest] = widths[widest]! - 1
    }
  }
  shrinks((column) => column.wraps === true, 16)
  shrinks(() => true, 4)
  return widths
}

function rowLines(
  columns: readonly Column[],
  cells: readonly string[],
  widths: readonly number[],
  margin: string,
): string[] {
  const wrapped = columns.map((column, index) => {
    const cell = cells[index] ?? ''
    return column.wraps === true ? wrapText(cell, widths[index]!) : [cell]
  })
  const height = Math.max(...wrapped.map((lines) => lines.length))
  return Array.from({ length: height }, (_, line) =>
    (
      margin +
      columns
        .map((column, index) => padded(cut(wrapped[index]![line] ?? '', widths[index]!), widths[index]!, column.align))
        .join(' '.repeat(GAP))
    ).trimEnd(),
  )
}

function padded(text: string, width: number, align: Column['align']): string {
  return align === 'right' ? text.padStart(width) : text.padEnd(width)
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`
}
