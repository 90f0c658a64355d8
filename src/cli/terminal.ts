/** Where a command writes, and what that place can show. Injected, so that tests read what was written. */
export interface Terminal {
  /** Writes text and a newline to stdout: results only. */
  out(text: string): void
  /** Writes text and a newline to stderr: everything else. */
  log(text: string): void
  /** Writes to stderr as it is, for a progress line. */
  raw(text: string): void
  /** Whether the process ends when a text cannot be written. `serve` sets it to false: it is no command with a result. */
  endsUnread: boolean
  /** stderr is a terminal: progress may be drawn. */
  readonly isInteractive: boolean
  /** stdout is a terminal that wants colours. */
  readonly hasColour: boolean
}

/** The process's own streams. Colours only on a terminal, and never with NO_COLOR set. */
export function processTerminal(): Terminal {
  const { stdout, stderr, env } = process
  return {
    out: (text) => void stdout.write(`${text}\n`),
    log: (text) => void stderr.write(`${text}\n`),
    raw: (text) => void stderr.write(text),
    endsUnread: true,
    isInteractive: stderr.isTTY === true,
    hasColour: stdout.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb',
  }
}

const CODES = { bold: [1, 22], dim: [2, 22], red: [31, 39], green: [32, 39], yellow: [33, 39] } as const

/** Text in a colour or weight, or the text alone where there are none. */
export function styled(text: string, style: keyof typeof CODES, hasColour: boolean): string {
  const [on, off] = CODES[style]
  return hasColour ? `\x1b[${on}m${text}\x1b[${off}m` : text
}
