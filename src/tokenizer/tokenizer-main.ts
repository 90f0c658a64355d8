import { SystemClock } from '../core/clock.ts'
import { type RpcPort, serveCalls } from '../core/rpc.ts'
import { TokenizerHost } from './tokenizer-host.ts'

// Entry of a process that tokenizes. Its argument: the options, as JSON. Its calls come over the channel to its parent.
const port: RpcPort = {
  on: (event, listener) => {
    return event === 'message' ? process.on('message', listener) : process
  },
  postMessage: (message) => void process.send?.(message),
  close: () => process.disconnect(),
}
serveCalls(port, new TokenizerHost({ options: JSON.parse(process.argv[2]!), clock: new SystemClock() }), (error) => {
  throw error // a bug: ends the process, which the pool sees
})
