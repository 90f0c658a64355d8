import { TraceBatch } from '../../src/replay/trace-batch.ts'
import { zipf } from './model-traffic.ts'
import { random } from './random.ts'

/** Tokens of one block of a trace. */
export const BLOCK_TOKENS = 512
const MS_BETWEEN_REQUESTS_MAX = 100

/** Appends requests at times of their own. Block ids are whole numbers; a block is named by its whole prefix. */
class TraceWriter {
  readonly batch = new TraceBatch()
  readonly next: (limit: number) => number
  #timeMs = 0
  #freshId = 0

  constructor(seed: number) {
    this.next = random(seed)
  }

  fresh(count: number): number[] {
    return Array.from({ length: count }, () => this.#freshId++)
  }

  ask(ids: readonly number[]): void {
    this.#timeMs += this.next(MS_BETWEEN_REQUESTS_MAX)
    this.batch.push(this.#timeMs, ids.length * BLOCK_TOKENS, 100, ids, ids.length)
  }
}

/** Conversations: each turn asks for all before it and some blocks more. A few go on at a time, then others begin. */
export function chats(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const systemPrompt = writer.fresh(4)
  const open: number[][] = []
  for (let request = 0; request < requests; request += 1) {
    if (open.length < 150 || next(12) === 0) open.push([...systemPrompt])
    if (open.length > 300) open.splice(next(open.length), 1)
    const chat = open[Math.max(next(open.length), next(open.length))]! // later ones more often
    chat.push(...writer.fresh(1 + next(6)))
    writer.ask(chat)
    if (chat.length > 120) open.splice(open.indexOf(chat), 1)
  }
  return writer.batch
}

/** Many tenants, each with a system prompt that all its requests begin with, and then a question of its own. */
export function tenants(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const systemPrompts = Array.from({ length: 800 }, () => writer.fresh(5 + next(40)))
  const draw = zipf(systemPrompts.length, next)
  for (let request = 0; request < requests; request += 1) {
    writer.ask([...systemPrompts[draw()]!, ...writer.fresh(1 + next(8))])
  }
  return writer.batch
}

/** A hot set of prompts among prompts that come once. */
export function scans(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const hot = Array.from({ length: 400 }, () => writer.fresh(4 + next(16)))
  for (let request = 0; request < requests; request += 1) {
    writer.ask(next(2) === 0 ? hot[next(hot.length)]! : writer.fresh(4 + next(40)))
  }
  return writer.batch
}

/** One document that is read to different depths again and again. */
export function deepChain(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const document = writer.fresh(4_000)
  for (let request = 0; request < requests; request += 1) {
    const depth = writer.next(4) === 0 ? document.length : 1 + writer.next(document.length)
    writer.ask(document.slice(0, depth))
  }
  return writer.batch
}
