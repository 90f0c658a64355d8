import type { TraceBatch } from '../../src/replay/trace-batch.ts'
import { zipf } from './model-traffic.ts'
import { TraceWriter } from './trace-writer.ts'

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

/** Prompts of which few are asked for often and most seldom. */
export function popular(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const prompts = Array.from({ length: 2_500 }, () => writer.fresh(2 + next(24)))
  const draw = zipf(prompts.length, next)
  for (let request = 0; request < requests; request += 1) writer.ask(prompts[draw()]!)
  return writer.batch
}

/** The same prompts round and round: what comes next is what was asked for longest ago. */
export function loops(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const prompts = Array.from({ length: 600 }, () => writer.fresh(4 + writer.next(16)))
  for (let request = 0; request < requests; request += 1) writer.ask(prompts[request % prompts.length]!)
  return writer.batch
}

/** Four kinds of load, one after the other and all over again with other prompts. */
export function phases(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const length = Math.ceil(requests / 8)
  let prompts: number[][] = []
  let draw = () => 0
  for (let request = 0; request < requests; request += 1) {
    const kind = Math.floor(request / length) % 4
    if (request % length === 0) {
      prompts = Array.from({ length: 300 }, () => writer.fresh(4 + next(20)))
      draw = zipf(prompts.length, next)
    }
    if (kind === 0) writer.ask(prompts[draw()]!)
    else if (kind === 1) writer.ask(prompts[request % prompts.length]!)
    else if (kind === 2) writer.ask(next(3) === 0 ? prompts[next(60)]! : writer.fresh(4 + next(40)))
    else {
      const chat = prompts[next(prompts.length)]!
      chat.push(...writer.fresh(1 + next(4)))
      writer.ask(chat)
    }
  }
  return writer.batch
}

interface Session {
  readonly ids: number[]
  readonly pause: number
  turnsLeft: number
  due: number
}

/** Sessions that end: most after one turn, some after dozens. Each has a pace of its own, and one of six system prompts. */
export function sessions(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const systemPrompts = Array.from({ length: 6 }, () => writer.fresh(2 + next(10)))
  const open: Session[] = []
  for (let request = 0; request < requests; request += 1) {
    let session = open.reduce<Session | null>((first, one) => (one.due < (first?.due ?? request) ? one : first), null)
    if (session === null) {
      const turnsLeft = next(10) < 6 ? 1 : 2 + next(next(4) === 0 ? 50 : 8)
      session = { ids: [...systemPrompts[next(6)]!], pause: 5 * 2 ** next(8), turnsLeft, due: request }
      open.push(session)
    }
    session.ids.push(...writer.fresh(1 + next(8)))
    writer.ask(session.ids)
    session.turnsLeft -= 1
    session.due = request + 1 + next(2 * session.pause)
    if (session.turnsLeft === 0) open.splice(open.indexOf(session), 1)
  }
  return writer.batch
}
