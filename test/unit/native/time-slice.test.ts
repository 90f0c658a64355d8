import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { getPriority, setPriority } from 'node:os'
import { expect, it } from 'vitest'
import { setTimeSlice, type TimeSlice, timeSliceOf } from '../../../src/native/time-slice.ts'

const module = new URL('../../../src/native/time-slice.ts', import.meta.url).href
const hasSlices = typeof timeSliceOf() !== 'string'

/** What a script prints, in a process of its own: some of what it asks for cannot be taken back. */
function printed(script: string, ...args: string[]): unknown {
  const text = `import(${JSON.stringify(module)}).then(async ({ setTimeSlice, timeSliceOf }) => { ${script} })`
  return JSON.parse(execFileSync(process.execPath, [...args, '--eval', text], { encoding: 'utf8' }))
}

it('there are slices, or there is a reason of one line', () => {
  const slice = timeSliceOf()
  if (typeof slice === 'string') expect(slice).toMatch(/^[^\n]+$/)
  else expect(slice.milliseconds).toBeGreaterThan(0)
})

it.runIf(hasSlices)('the kernel gives the slice that was asked for, within its bounds', () => {
  const script = `
    const got = [0.1, 5, 0.001, 5_000].map((milliseconds) => [setTimeSlice({ milliseconds, isInherited: true }), timeSliceOf()])
    console.log(JSON.stringify(got))`
  const got = printed(script) as [null, TimeSlice][]
  expect(got.map(([refusal]) => refusal)).toEqual([null, null, null, null])
  expect(got.map(([, slice]) => slice)).toEqual(
    [0.1, 5, 0.1, 100].map((milliseconds) => ({ milliseconds, isInherited: true })),
  )
})

it.runIf(hasSlices && getPriority() >= 0)(
  'a thread gets the slice of the one that starts it only where it is inherited',
  () => {
    const script = `
    const { Worker } = await import('node:worker_threads')
    const sliceOfNew = () => new Promise((resolve) => {
      const text = 'import(${module}).then(({ timeSliceOf }) => require("node:worker_threads").parentPort.postMessage(timeSliceOf()))'
      new Worker(text.replace('${module}', ${JSON.stringify(JSON.stringify(module))}), { eval: true }).on('message', resolve)
    })
    const usual = timeSliceOf()
    setTimeSlice({ milliseconds: 7, isInherited: true })
    const heir = await sliceOfNew()
    setTimeSlice({ milliseconds: 0.1, isInherited: false })
    console.log(JSON.stringify({ usual, heir, own: timeSliceOf(), other: await sliceOfNew() }))`
    const { usual, heir, own, other } = printed(script) as Record<'usual' | 'heir' | 'own' | 'other', TimeSlice>
    expect(heir).toEqual({ milliseconds: 7, isInherited: true })
    expect(own).toEqual({ milliseconds: 0.1, isInherited: false })
    expect(other).toEqual(usual)
  },
)

it.runIf(hasSlices)('sets the slice of another process, and keeps its priority', async () => {
  const child = spawn(process.execPath, ['--eval', 'process.stdin.resume()'], { stdio: ['pipe', 'ignore', 'inherit'] })
  setPriority(child.pid!, 10)
  expect(setTimeSlice({ milliseconds: 9, isInherited: true }, child.pid)).toBeUndefined()
  expect(timeSliceOf(child.pid)).toEqual({ milliseconds: 9, isInherited: true })
  expect(getPriority(child.pid)).toBe(10)
  child.stdin.end()
  await once(child, 'exit')
})

it.runIf(hasSlices)('a thread that does not exist is a reason, not an error', () => {
  const nobody = 2 ** 30 // above the highest number that Linux gives
  expect(timeSliceOf(nobody)).toContain('sched_getattr')
  expect(setTimeSlice({ milliseconds: 1, isInherited: true }, nobody)).toContain('sched_getattr')
})

it('a machine where koffi cannot be loaded gets a reason', () => {
  const hooks = `import { registerHooks } from 'node:module'
    registerHooks({ resolve(name, context, next) {
      if (name === 'koffi') throw new Error('no binary for this platform')
      return next(name, context)
    } })`
  const script = 'console.log(JSON.stringify([timeSliceOf(), setTimeSlice({ milliseconds: 1, isInherited: true })]))'
  const answers = printed(script, '--import', `data:text/javascript,${encodeURIComponent(hooks)}`) as string[]
  for (const answer of answers) expect(answer).toMatch(/^[^\n]+$/)
})
