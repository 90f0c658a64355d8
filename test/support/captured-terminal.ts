import type { Terminal } from '../../src/cli/terminal.ts'

/** A terminal that remembers what was written to it. */
export class CapturedTerminal implements Terminal {
  stdout = ''
  stderr = ''
  endsUnread = true
  readonly isInteractive: boolean
  readonly hasColour: boolean

  constructor(shows: { isInteractive?: boolean; hasColour?: boolean } = {}) {
    this.isInteractive = shows.isInteractive ?? false
    this.hasColour = shows.hasColour ?? false
  }

  out(text: string): void {
    this.stdout += `${text}\n`
  }

  log(text: string): void {
    this.stderr += `${text}\n`
  }

  raw(text: string): void {
    this.stderr += text
  }
}
