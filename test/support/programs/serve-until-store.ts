import { startEngine } from '../../../src/app/start-stop.ts'
import { loadConfig } from '../../../src/config/load-config.ts'
import { readMachineFacts, readTextFile } from '../../../src/config/machine-facts.ts'
import { mapTables } from '../../../src/l1/l1-tables.ts'
import { createLogger } from '../../../src/server/http/logger.ts'
import { fusedTables, StoreFuse } from '../killed-tables.ts'

// `serve-until-store.ts serve FLAGS --die-after N`: an engine as `kvtier serve FLAGS` runs it, which kills itself with
// SIGKILL in place of store number N + 1 to L1's tables, counted from when it listens.
const [, ...words] = process.argv.slice(2)
const at = words.indexOf('--die-after')
const [, count] = words.splice(at, 2)
const argv = words
const { options: config } = loadConfig({ argv, env: {}, machine: readMachineFacts(), readFile: readTextFile })
const fuse = new StoreFuse(() => process.kill(process.pid, 'SIGKILL'))
const engine = await startEngine({
  config,
  version: 'test',
  logger: createLogger(config.general.logLevel),
  layTables: (options, memory) => fusedTables(mapTables(options, memory), fuse),
  onFatal: (error) => {
    throw error
  },
})
fuse.left = Number(count)
process.on('SIGTERM', () => void engine.stop().then(() => process.exit(0)))
