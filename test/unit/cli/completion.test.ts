import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { COMMANDS } from '../../../src/cli/commands.ts'
import { completionScript } from '../../../src/cli/completion.ts'

/** What bash offers behind a line. */
async function bashOffers(...words: string[]): Promise<string[]> {
  const script = await completionScript('bash', COMMANDS)
  const line = words.map((word) => `'${word}'`).join(' ')
  const program = `${script}\nCOMP_WORDS=(${line}); COMP_CWORD=${words.length - 1}; _kvtier\nprintf '%s\\n' "\${COMPREPLY[@]}"`
  return execFileSync('bash', ['-c', program], { encoding: 'utf8' })
    .split('\n')
    .filter((word) => word !== '')
}

describe('completion', () => {
  it('offers commands, options and choices in bash', async () => {
    expect(await bashOffers('kvtier', 'rep')).toEqual(['replay'])
    expect(await bashOffers('kvtier', 'replay', 'x', '--l1-c')).toEqual(['--l1-chunks'])
    expect(await bashOffers('kvtier', 'replay', '--policy', '')).toEqual(['lru', 's3-fifo', 'arc', 'adaptive'])
    expect(await bashOffers('kvtier', 'print', 'met')).toEqual(['metrics'])
  })

  it.each(['bash', 'zsh', 'fish'])('names every option of every command in %s', async (shell) => {
    const script = await completionScript(shell, COMMANDS)
    for (const spec of COMMANDS) {
      for (const { name } of spec.options) expect(script).toContain(shell === 'fish' ? `-l ${name}` : `--${name}`)
    }
  })
})
