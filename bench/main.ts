import { readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'

/** Folders of benches: of parts, and of whole engines in processes of their own. */
const FOLDERS = ['.', 'macro']
const SET = 'set'
const LIST = 'list'

/**
 * Runs one bench: `npm run bench -- l1-index`; without a name, the set of `set.ts`; `list` lists them. A bench is a file
 * of `FOLDERS` that runs when it is loaded; the words after its name are its own (`process.argv` from 3 on). The list
 * shows the first line of its first doc comment.
 */
async function main(name: string): Promise<void> {
  const files = new Map(FOLDERS.flatMap(benchesIn))
  const names = [...files.keys()].sort()
  const file = files.get(name)
  if (file === undefined) {
    if (name !== LIST) console.error(`no bench named ${name}`)
    const width = Math.max(...names.map((one) => one.length))
    for (const one of names) console.log(`${one.padEnd(width)}  ${summaryOf(files.get(one)!)}`)
    process.exitCode = name === LIST ? 0 : 2
    return
  }
  console.error(`${name}: Node ${process.versions.node}, ${cpus().length} x ${cpus()[0]?.model.trim() ?? 'CPU'}`)
  await import(file)
}

/** Name and file of each bench of a folder. */
function benchesIn(folder: string): [name: string, file: string][] {
  return readdirSync(join(import.meta.dirname, folder))
    .filter((file) => file.endsWith('.ts') && file !== 'main.ts')
    .map((file) => [file.slice(0, -'.ts'.length), join(import.meta.dirname, folder, file)])
}

function summaryOf(file: string): string {
  const text = readFileSync(file, 'utf8')
  return /\/\*\*[\s*]*([^\n]*?)\s*(?:\*\/)?\n/.exec(text)?.[1] ?? ''
}

const first = process.argv[2]
await main(first === undefined || first.startsWith('--') ? SET : first)
