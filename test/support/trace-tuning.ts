import type { TraceBatch } from '../../src/replay/trace-batch.ts'
import { zipf } from './model-traffic.ts'
import { TraceWriter } from './trace-writer.ts'

/** Shapes of load with which the adaptive policy was tuned. What it is measured by is in trace-shapes.ts and trace-strangers.ts. */

/** Blocks of a document: many short ones, few long ones. */
function documentBlocks(next: (limit: number) => number): number {
  return 1 + Math.min(120, Math.floor(3 / ((next(1000) + 20) / 1000)))
}

interface Talk {
  readonly ids: number[]
  readonly pause: number
  turnsLeft: number
  due: number
}

/** Assistants of very different popularity. Their users bring a document, or a line, and come back for some turns, or never. */
export function assistants(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const systemPrompts = Array.from({ length: 60 }, () => writer.fresh(1 + next(12)))
  const draw = zipf(systemPrompts.length, next)
  const waiting = new Map<number, Talk[]>()
  for (let request = 0; request < requests; request += 1) {
    const due = waiting.get(request) ?? []
    waiting.delete(request)
    let talk = due.shift()
    for (const late of due) put(waiting, request + 1, late)
    if (talk === undefined) {
      const turnsLeft = next(2) === 0 ? 1 : 1 + next(next(3) === 0 ? 20 : 5)
      talk = { ids: [...systemPrompts[draw()]!], pause: 20 * 2 ** next(6), turnsLeft, due: request }
      talk.ids.push(...writer.fresh(documentBlocks(next)))
    } else talk.ids.push(...writer.fresh(1 + next(4)))
    writer.ask(talk.ids)
    talk.turnsLeft -= 1
    if (talk.turnsLeft > 0) put(waiting, request + 1 + next(2 * talk.pause), talk)
  }
  return writer.batch
}

function put(waiting: Map<number, Talk[]>, at: number, talk: Talk): void {
  const others = waiting.get(at)
  if (others === undefined) waiting.set(at, [talk])
  else others.push(talk)
}

/** Programs that take many quick steps, each with a little more text, forty at a time; between them long prompts that come once. */
export function coders(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const instructions = writer.fresh(8)
  const tasks: number[][] = []
  for (let request = 0; request < requests; request += 1) {
    if (next(5) === 0) {
      writer.ask(writer.fresh(documentBlocks(next) + 10))
      continue
    }
    if (tasks.length < 40) tasks.push([...instructions, ...writer.fresh(2 + next(10))])
    const at = next(tasks.length)
    const task = tasks[at]!
    task.push(...writer.fresh(1 + next(3)))
    writer.ask(task)
    if (next(30) === 0) tasks.splice(at, 1)
  }
  return writer.batch
}

/** Popular prompts, of which each is popular for a time. */
export function fashions(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const prompts = Array.from({ length: 800 }, () => writer.fresh(4 + next(16)))
  const draw = zipf(prompts.length, next)
  for (let request = 0; request < requests; request += 1) {
    if (next(6) === 0) prompts[draw()] = writer.fresh(4 + next(16))
    writer.ask(prompts[draw()]!)
  }
  return writer.batch
}

/** Prompts that are asked for a few times within moments and hardly ever again. */
export function bursts(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const recent: number[][] = []
  const old: number[][] = []
  for (let request = 0; request < requests; request += 1) {
    const kind = next(10)
    if (kind < 5 && recent.length > 0) writer.ask(recent[next(recent.length)]!)
    else if (kind === 5 && old.length > 0) writer.ask(old[next(old.length)]!)
    else {
      const prompt = writer.fresh(2 + next(30))
      recent.push(prompt)
      if (recent.length > 25) old.push(...recent.splice(next(5), 1))
      writer.ask(prompt)
    }
  }
  return writer.batch
}

/** All prompts of a set in random order, and again in another one. */
export function epochs(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const prompts = Array.from({ length: 500 }, () => writer.fresh(3 + next(12)))
  for (let request = 0; request < requests; request += 1) {
    const left = prompts.length - (request % prompts.length)
    const at = next(left)
    const prompt = prompts[at]!
    prompts[at] = prompts[left - 1]!
    prompts[left - 1] = prompt
    writer.ask(prompt)
  }
  return writer.batch
}

/** Documents that are edited: the text before the change stays, all behind it is new; now and then a change is taken back. */
export function editors(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const documents = Array.from({ length: 120 }, () => [writer.fresh(20 + next(40))])
  const draw = zipf(documents.length, next)
  for (let request = 0; request < requests; request += 1) {
    const versions = documents[draw()]!
    const last = versions[versions.length - 1]!
    if (next(5) === 0 && versions.length > 1) writer.ask(versions[next(versions.length)]!)
    else {
      const kept = last.length - 1 - next(next(3) === 0 ? last.length - 1 : 6)
      const edited = [...last.slice(0, Math.max(1, kept)), ...writer.fresh(1 + next(8))]
      versions.push(edited)
      if (versions.length > 12) versions.shift()
      writer.ask(edited)
    }
  }
  return writer.batch
}

/** Loads that follow each other without warning, each for a while of its own; some come back. */
export function weather(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const sets: number[][][] = []
  let prompts: number[][] = []
  let draw = () => 0
  let kind = 0
  let left = 0
  for (let request = 0; request < requests; request += 1) {
    if (left === 0) {
      left = 200 + next(1_800)
      kind = next(5)
      prompts = next(3) === 0 && sets.length > 0 ? sets[next(sets.length)]! : []
      if (prompts.length === 0) sets.push(prompts)
      while (prompts.length < 250) prompts.push(writer.fresh(3 + next(20)))
      draw = zipf(prompts.length, next)
    }
    left -= 1
    if (kind === 0) writer.ask(prompts[draw()]!)
    else if (kind === 1) writer.ask(prompts[left % prompts.length]!)
    else if (kind === 2) writer.ask(next(4) === 0 ? prompts[next(40)]! : writer.fresh(4 + next(30)))
    else {
      const at = kind === 3 ? next(prompts.length) : Math.min(next(prompts.length), next(prompts.length))
      const talk = prompts[at]!
      talk.push(...writer.fresh(1 + next(3)))
      writer.ask(talk)
      if (talk.length > 60) prompts[at] = writer.fresh(3 + next(20))
    }
  }
  return writer.batch
}

/** A set of prompts that are all asked for as often, between documents that nobody brings twice. */
export function errands(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const prompts = Array.from({ length: 350 }, () => writer.fresh(6 + next(24)))
  for (let request = 0; request < requests; request += 1) {
    writer.ask(next(5) < 3 ? prompts[next(prompts.length)]! : writer.fresh(documentBlocks(next)))
  }
  return writer.batch
}
