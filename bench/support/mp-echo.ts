import { Router } from 'zeromq'

/**
 * The floor of the MP wire: a bare ROUTER in a process of its own. The op of a request says how many bytes the answer's
 * payload has; NO_PAYLOAD = none. Prints its port.
 */
const NO_PAYLOAD = 0xffff_ffff
const payloads = new Map<number, Buffer>()
const socket = new Router({ linger: 0 })
await socket.bind('tcp://127.0.0.1:*')
console.log(socket.lastEndpoint!.split(':').at(-1))
process.once('SIGTERM', () => process.exit(0))
process.stdin.resume().once('close', () => process.exit(0))
for await (const [identity, uid, op] of socket) {
  const bytes = op!.readUInt32BE(1)
  if (bytes === NO_PAYLOAD) await socket.send([identity!, uid!, op!])
  else await socket.send([identity!, uid!, op!, payloadOf(bytes)])
}

function payloadOf(bytes: number): Buffer {
  const known = payloads.get(bytes)
  if (known !== undefined) return known
  const made = Buffer.alloc(bytes)
  payloads.set(bytes, made)
  return made
}
