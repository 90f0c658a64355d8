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
 * What comes late is dropped; a lease among it ends by itself.
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
      return (...args: unknown[]) => inTime(method(...args), clock, timeoutMs)
    },
  })
}

function inTime<T>(answer: Promise<T>, clock: Clock, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = clock.schedule(timeoutMs, () => {
      reject(new CacheError('ENGINE_TIMEOUT', `the engine did not answer within ${timeoutMs} ms; try again`))
    })
    answer.then(resolve, reject).finally(() => timer.cancel())
  })
}
