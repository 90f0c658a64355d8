import * as fsPromises from 'node:fs/promises'
import type { Disk } from '../../src/l2/adapters/disk.ts'

/** Told each file call before it happens: a code such as ENOSPC makes it fail with that. */
export type DiskFault = (call: string, path: string) => string | undefined | Promise<string | undefined>

/** The machine's files, with calls that fail on purpose. Calls on an open file are named too: writev, datasync... */
export function faultDisk(fault: DiskFault): Disk {
  const guarded = <Target extends object>(target: Target, pathOf: (args: unknown[]) => string): Target =>
    new Proxy(target, {
      get: (object, name) => {
        const member: unknown = Reflect.get(object, name)
        if (typeof member !== 'function') return member
        return async (...args: unknown[]) => {
          const path = pathOf(args)
          const code = await fault(String(name), path)
          if (code !== undefined) throw Object.assign(new Error(`${code} on purpose`), { code })
          const result: unknown = await Reflect.apply(member, object, args)
          return name === 'open' ? guarded(result as object, () => path) : result
        }
      },
    })
  return guarded({ ...fsPromises }, (args) => String(args[0]))
}
