#!/usr/bin/env node
import { runCli } from './run-cli.ts'
import { processTerminal } from './terminal.ts'

// A reader that goes away (`kvtier print metrics | head`) is no failure of ours.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0)
    throw error
  })
}

process.exitCode = await runCli(process.argv.slice(2), processTerminal())
