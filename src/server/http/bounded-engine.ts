import type { Clock } from '../../core/clock.ts'
import { CacheError } from '../../core/errors.ts'
import type { EnginePort } from './engine-port.ts'
import type { StoragePort } from './storage-port.ts'

/**
 * What takes as long as it takes: a removal that was begun is finished, and its record must tell of it. Adapters are
 * opened and closed under deadlines of their own.
 */
const UNBOUNDED: readonly (string | symbol)[] = ['clear', 'addAdapter', 'removeAdapter'] satisfies (
  | keyof EnginePort
  | keyof StoragePort
)[]

/**
 * An engine port whose answers are bounded in time: a question that is not answered rejects with ENGINE_TIMEOUT.
 * What comes late is dropped, and a lease among it is given back: a slot to write to would be kept for ever.
 */
export function boundedEngine<Port extends EnginePort | StoragePort>(
  engine: Port,
  clock: Clock,
  timeoutMs: number,
): Port {
  return new Proxy(engine, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      const method = member.bind(target) as (...args: unknown[]) => Promise<unknown>
      if (UNBOUNDED.includes(name)) return method
      return (...args: unknown[]) => inTime(method(...args), clock, timeoutMs, (late) => giveBack(target, name, late))
    },
  })
}

function inTime<T>(answer: Promise<T>, clock: Clock, timeoutMs: number, onLate: (late: T) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    let isLate = false
    const timer = clock.schedule(timeoutMs, () => {
      isLate = true
      reject(new CacheError('ENGINE_TIMEOUT', `the engine did not answer within ${timeoutMs} ms; try again`))
    })
    const take = (value: T) => (isLate ? onLate(value) : resolve(value))
    answer.then(take, reject).finally(() => timer.cancel())
  })
}

/** Ends the lease in an answer that nobody waits for any more, if there is one. */
function giveBack(port: EnginePort | StoragePort, name: string | symbol, late: unknown): void {
  const leaseId = (late as { readonly leaseId?: unknown } | null | undefined)?.leaseId
  if (typeof leaseId !== 'string' || !('abortShard' in port)) return
  const ended = name === 'reserveShard' ? port.abortShard(leaseId) : port.releaseLease(leaseId)
  ended.catch(() => undefined) // the engine is gone, and the lease with it
}
