import { readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'

/**
 * Runs one bench: `npm run bench -- l1-index`; without a name, lists them. A bench is a file of this folder that runs
 * when it is loaded; the words after its name are its own (`process.argv` from 3 on). The list shows the first line
 * of its first doc comment.
 */
async function main(name: string | undefined): Promise<void> {
  const names = readdirSync(import.meta.dirname)
    .filter((file) => file.endsWith('.ts') && file !== 'main.ts')
    .map((file) => file.slice(0, -'.ts'.length))
    .sort()
  if (name === undefined || !names.includes(name)) {
    if (name !== undefined) console.error(`no bench named ${name}`)
    const width = Math.max(...names.map((one) => one.length))
    for (const one of names) console.log(`${one.padEnd(width)}  ${summaryOf(one)}`)
    process.exitCode = name === undefined ? 0 : 2
    return
  }
  console.error(`${name}: Node ${process.versions.node}, ${cpus().length} x ${cpus()[0]?.model.trim() ?? 'CPU'}`)
  await import(`./${name}.ts`)
}

function summaryOf(name: string): string {
  const text = readFileSync(join(import.meta.dirname, `${name}.ts`), 'utf8')
  return /\/\*\*[\s*]*([^\n]*?)\s*(?:\*\/)?\n/.exec(text)?.[1] ?? ''
}

await main(process.argv[2])
