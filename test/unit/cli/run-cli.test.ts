import { describe, expect, it } from 'vitest'
import type { CommandSpec } from '../../../src/cli/command.ts'
import { runCli } from '../../../src/cli/run-cli.ts'
import { assert } from '../../../src/core/assert.ts'
import { CacheError } from '../../../src/core/errors.ts'
import { CapturedTerminal } from '../../support/captured-terminal.ts'

function command(name: string, parts: Partial<CommandSpec> = {}): CommandSpec {
  const load = async () => ({ run: async () => 0 as const })
  return { name, summary: `Does ${name}.`, positionals: [], options: [], examples: [], load, ...parts }
}

function failing(error: unknown): CommandSpec {
  return command('fail', {
    load: async () => ({
      run: async () => {
        throw error
      },
    }),
  })
}

async function runWith(commands: readonly CommandSpec[], ...argv: string[]) {
  const terminal = new CapturedTerminal()
  const code = await runCli(argv, terminal, commands)
  return { code, stdout: terminal.stdout, stderr: terminal.stderr }
}

describe('runCli', () => {
  it('shows help and exits with 2 when nothing is asked', async () => {
    const { code, stdout, stderr } = await runWith([command('one')])
    expect(code).toBe(2)
    expect(stdout).toContain('kvtier COMMAND')
    expect(stderr).toBe('')
  })

  it.each([['--help'], ['-h'], ['help']])('shows help and exits with 0 for %s', async (word) => {
    expect(await runWith([command('one')], word)).toMatchObject({ code: 0, stderr: '' })
  })

  it('shows the help of a command without running it', async () => {
    const { code, stdout } = await runWith([failing(new Error('ran'))], 'fail', '--help')
    expect(code).toBe(0)
    expect(stdout).toContain('kvtier fail [OPTIONS]')
  })

  it('leaves --help after -- to the command', async () => {
    const takes = command('take', { positionals: [{ name: 'TEXT', help: 'Any text.' }] })
    expect(await runWith([takes], 'take', '--', '--help')).toEqual({ code: 0, stdout: '', stderr: '' })
  })

  it('guesses a mistyped command', async () => {
    const { code, stderr } = await runWith([command('replay'), command('print')], 'reply')
    expect(code).toBe(2)
    expect(stderr).toBe('kvtier: there is no command "reply"; did you mean replay?\n')
  })

  it('runs commands of two words, and lists those of a group', async () => {
    const commands = [command('token create'), command('token list')]
    expect(await runWith(commands, 'token', 'create')).toEqual({ code: 0, stdout: '', stderr: '' })
    expect((await runWith(commands, 'token')).stdout).toContain('token list')
    expect((await runWith(commands, 'token', 'creat')).stderr).toContain('did you mean token create?')
  })

  it('answers in JSON, and says what is missing, where --json stands without a command', async () => {
    for (const [argv, message] of [
      [['--json'], '--json needs a command before it; see kvtier --help'],
      [['token', '--json'], 'token needs a command; see kvtier token --help'],
    ] as const) {
      const { code, stdout } = await runWith([command('token create')], ...argv)
      expect(code).toBe(2)
      expect(JSON.parse(stdout).error).toMatchObject({ code: 'CONFIG_INVALID', message })
    }
  })

  it('prints an operating error as one line, without a stack', async () => {
    const error = new CacheError('PORT_TAKEN', 'port 80 is taken;\n  give --http-port', { field: '--http-port' })
    const { code, stdout, stderr } = await runWith([failing(error)], 'fail')
    expect(code).toBe(1)
    expect(stdout).toBe('')
    expect(stderr).toBe('kvtier: port 80 is taken; give --http-port\n')
  })

  it('exits with 2 for a configuration error and with 1 for a bad trace', async () => {
    expect((await runWith([failing(new CacheError('CONFIG_INVALID', 'no'))], 'fail')).code).toBe(2)
    expect((await runWith([failing(new CacheError('TRACE_INVALID', 'no'))], 'fail')).code).toBe(1)
  })

  it('prints an error as one JSON object too with --json', async () => {
    const { stdout } = await runWith([failing(new CacheError('NO_ROOM', 'full', { bytes: 3 }))], 'fail', '--json')
    expect(JSON.parse(stdout)).toEqual({ error: { code: 'NO_ROOM', message: 'full', detail: { bytes: 3 } } })
  })

  it('says of a bug that it is one', async () => {
    const bug = command('bug', {
      load: async () => {
        assert(false, 'broken')
        return { run: async () => 0 }
      },
    })
    const { code, stderr } = await runWith([bug], 'bug')
    expect(code).toBe(1)
    expect(stderr).toBe('kvtier: internal error: broken (DEBUG=kvtier shows where)\n')
  })

  it('prints the version', async () => {
    const { stdout } = await runWith([], '--version', '--json')
    expect(JSON.parse(stdout)).toMatchObject({ version: expect.stringMatching(/^\d+\.\d+\.\d+/) })
  })
})
