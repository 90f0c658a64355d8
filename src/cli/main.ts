#!/usr/bin/env node
import { runCli } from './run-cli.ts'
import { processTerminal } from './terminal.ts'

const terminal = processTerminal()
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (!terminal.endsUnread) return
    // A reader that goes away (`kvtier print metrics | head`) is no failure of ours.
    if (error.code === 'EPIPE') process.exit(0)
    if (stream === process.stdout) terminal.log(`kvtier: the output cannot be written (${error.code})`)
    process.exit(1)
  })
}

process.exitCode = await runCli(process.argv.slice(2), terminal)
