import type { TraceBatch } from '../../src/replay/trace-batch.ts'
import { zipf } from './model-traffic.ts'
import { TraceWriter } from './trace-writer.ts'

/**
 * Shapes of load that were made after the adaptive policy was done, to see how it does on what it was not made with:
 * other ways for prompts to share what they begin with.
 */

/** Retrieval: the best documents for a question, in an order that is seldom the same; then the question. */
export function retrieval(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const instructions = writer.fresh(3)
  const topics = Array.from({ length: 150 }, () => Array.from({ length: 8 }, () => writer.fresh(2 + next(6))))
  const draw = zipf(topics.length, next)
  for (let request = 0; request < requests; request += 1) {
    const documents = [...topics[draw()]!]
    const prompt = [...instructions]
    for (let rank = 0; rank < 5; rank += 1) {
      const at = next(3) === 0 ? next(documents.length) : 0 // mostly by relevance, which is the same for all
      prompt.push(...documents.splice(at, 1)[0]!)
    }
    writer.ask([...prompt, ...writer.fresh(1 + next(2))])
  }
  return writer.batch
}

/** Evaluations: the examples of a task, then each of its questions once; several go on side by side, some run again. */
export function evaluations(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const sets = Array.from({ length: 40 }, () => ({
    examples: writer.fresh(4 + next(30)),
    questions: Array.from({ length: 50 + next(200) }, () => writer.fresh(1 + next(4))),
  }))
  const running: { set: (typeof sets)[number]; at: number }[] = []
  for (let request = 0; request < requests; request += 1) {
    if (running.length < 3 || (running.length < 8 && next(100) === 0)) {
      running.push({ set: sets[next(sets.length)]!, at: 0 })
    }
    const turn = next(running.length)
    const run = running[turn]!
    writer.ask([...run.set.examples, ...run.set.questions[run.at]!])
    run.at += 1
    if (run.at === run.set.questions.length) running.splice(turn, 1)
  }
  return writer.batch
}

/** Agents that try several ways: from any step of a task, some branches, of which most are given up. */
export function branches(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const tools = writer.fresh(10)
  const tasks: number[][][] = []
  for (let request = 0; request < requests; request += 1) {
    if (tasks.length < 30) tasks.push([[...tools, ...writer.fresh(3 + next(12))]])
    const task = next(tasks.length)
    const steps = tasks[task]!
    const from = next(4) === 0 ? next(steps.length) : steps.length - 1
    const step = [...steps[from]!, ...writer.fresh(1 + next(5))]
    writer.ask(step)
    if (next(3) !== 0) steps.splice(from + 1, steps.length, step) // what came after is given up
    if (step.length > 80 || next(60) === 0) tasks.splice(task, 1)
  }
  return writer.batch
}

/** Three loads at once, of which each grows and fades: questions to manuals, talks, and a nightly run over all records. */
export function tides(seed: number, requests: number): TraceBatch {
  const writer = new TraceWriter(seed)
  const { next } = writer
  const manuals = Array.from({ length: 200 }, () => writer.fresh(6 + next(40)))
  const draw = zipf(manuals.length, next)
  const talks = Array.from({ length: 100 }, () => writer.fresh(2 + next(10)))
  const records = Array.from({ length: 400 }, () => writer.fresh(5 + next(10)))
  let record = 0
  for (let request = 0; request < requests; request += 1) {
    const day = (request / requests) * 3 * 2 * Math.PI
    const shares = [1 + Math.sin(day), 1 + Math.sin(day + 2), 1 + Math.sin(day + 4)]
    const drawn = (next(10_000) / 10_000) * (shares[0]! + shares[1]! + shares[2]!)
    if (drawn < shares[0]!) writer.ask([...manuals[draw()]!, ...writer.fresh(1)])
    else if (drawn < shares[0]! + shares[1]!) {
      const at = next(talks.length)
      talks[at] = next(12) === 0 ? writer.fresh(2 + next(10)) : [...talks[at]!, ...writer.fresh(1 + next(4))]
      writer.ask(talks[at]!)
    } else writer.ask(records[record++ % records.length]!)
  }
  return writer.batch
}
