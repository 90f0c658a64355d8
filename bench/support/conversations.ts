import { writeFileSync } from 'node:fs'

/**
 * Writes a Mooncake trace of 12,000 prompts: 1,500 conversations in turn, each turn's prompt the one before and some
 * more.
 */
export function writeConversations(path: string): void {
  const lines: string[] = []
  let nextId = 0
  for (let group = 0; group < 10; group += 1) {
    const prompts = Array.from({ length: 150 }, () => Array.from({ length: 4 }, () => nextId++))
    for (let turn = 0; turn < 8; turn += 1) {
      for (const [at, prompt] of prompts.entries()) {
        for (let more = 0; more < 5; more += 1) prompt.push(nextId++)
        const timestamp = (group * 8 + turn) * 10_000 + at * 30
        const input = prompt.length * 512
        lines.push(JSON.stringify({ timestamp, input_length: input, output_length: 100, hash_ids: prompt }))
      }
    }
  }
  writeFileSync(path, lines.join('\n'))
}
