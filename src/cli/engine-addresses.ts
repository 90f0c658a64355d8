import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CacheError } from '../core/errors.ts'
import type { CommandCall, OptionSpec } from './command.ts'
import { dataDirOf } from './data-dir-option.ts'
import { usageError } from './report-error.ts'

/** Where a running engine listens, from its data directory. */
export interface EngineAddresses {
  readonly http?: string
  readonly mp?: string
}

/** `--address` of the commands that speak the MP wire. */
export const MP_ADDRESS_OPTION: OptionSpec = {
  name: 'address',
  value: 'HOST:PORT',
  help: 'Address of the MP wire.',
  default: 'the one in --data-dir',
}

/** What the engine of `--data-dir` wrote when it started. @throws CacheError NOT_FOUND */
export function readAddresses(call: CommandCall, otherOption: string): EngineAddresses {
  const path = join(dataDirOf(call), 'addresses.json')
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as EngineAddresses
  } catch (error) {
    const message = `no engine has written ${path}; start one, or give ${otherOption} or --data-dir`
    throw new CacheError('NOT_FOUND', message, {}, error)
  }
}

/** HOST:PORT of the MP wire: the option, or that of the engine of the data directory. @throws CacheError */
export function mpAddressOf(call: CommandCall): string {
  const given = call.options.address
  if (given === undefined) {
    const { mp } = readAddresses(call, '--address')
    if (mp === undefined) throw new CacheError('NOT_FOUND', `the engine of ${dataDirOf(call)} serves no MP wire`)
    return mp.replace(/^(0\.0\.0\.0|\[::\]):/, '127.0.0.1:')
  }
  if (given !== true && /^[^\s:]+:\d{1,5}$|^\[[\da-f:]+\]:\d{1,5}$/i.test(given)) return given
  throw usageError(`--address is "${given}"; write a host and a port such as 127.0.0.1:5555`, '--address')
}
