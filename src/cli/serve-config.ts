import { type LoadedConfig, loadConfig } from '../config/load-config.ts'
import { readMachineFacts, readTextFile } from '../config/machine-facts.ts'
import type { CommandCall } from './command.ts'

/** Reads the configuration of `serve` from a command line, the environment and the file. @throws CONFIG_INVALID */
export function loadServeConfig(call: CommandCall): LoadedConfig {
  const argv = call.argv.filter((word) => word !== '--json')
  return loadConfig({ argv, env: process.env, machine: readMachineFacts(), readFile: readTextFile })
}
