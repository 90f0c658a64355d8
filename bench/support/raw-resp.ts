import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { crc32 } from '../../src/native/checksum.ts'

const MIB = 1024 * 1024

/**
 * The least that a client of Redis can do for values of one length: a bare socket, commands written as they are,
 * replies counted. What is read lands in the memory given, one after the other, lines and all, in pieces of 1 MiB at
 * most; nothing is parsed, and summed only where `isSumming` is set.
 */
export class RawResp {
  /** Sums what it reads, to see what that costs. */
  isSumming = false
  readonly #socket: Socket
  readonly #depth: number
  #replyBytes = 1
  #read = 0
  #onRead: () => void = () => undefined

  private constructor(port: number, depth: number, memory: Uint8Array) {
    this.#depth = depth
    let at = 0
    const onread = {
      buffer: () => {
        if (at + MIB > memory.length) at = 0
        return memory.subarray(at, at + MIB) as Buffer
      },
      callback: (count: number) => {
        if (this.isSumming) crc32(memory.subarray(at, at + count))
        at += count
        this.#read += count
        this.#onRead()
        return true
      },
    }
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true, onread })
  }

  /** @param depth commands without a reply at most. @param memory takes what is read, round and round. */
  static async open(port: number, depth: number, memory: Uint8Array): Promise<RawResp> {
    const client = new RawResp(port, depth, memory)
    await once(client.#socket, 'connect')
    return client
  }

  /** SET of each value. */
  set(names: readonly string[], values: readonly Uint8Array[]): Promise<void> {
    const heads = names.map((name, at) =>
      Buffer.from(`*3\r\n$3\r\nSET\r\n$${name.length}\r\n${name}\r\n$${values[at]!.length}\r\n`),
    )
    const end = Buffer.from('\r\n')
    return this.#run(names.length, '+OK\r\n'.length, (at) => {
      this.#socket.write(heads[at]!)
      this.#socket.write(values[at]!)
      this.#socket.write(end)
    })
  }

  /** GET of each value; all have one length. */
  get(names: readonly string[], valueBytes: number): Promise<void> {
    const commands = names.map((name) => Buffer.from(`*2\r\n$3\r\nGET\r\n$${name.length}\r\n${name}\r\n`))
    const replyBytes = `$${valueBytes}\r\n`.length + valueBytes + 2
    return this.#run(names.length, replyBytes, (at) => void this.#socket.write(commands[at]!))
  }

  delete(names: readonly string[]): Promise<void> {
    const commands = names.map((name) => Buffer.from(`*2\r\n$3\r\nDEL\r\n$${name.length}\r\n${name}\r\n`))
    return this.#run(names.length, ':1\r\n'.length, (at) => void this.#socket.write(commands[at]!))
  }

  close(): void {
    this.#socket.destroy()
  }

  async #run(count: number, replyBytes: number, send: (at: number) => void): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    let sent = 0
    this.#replyBytes = replyBytes
    this.#read = 0
    this.#onRead = () => {
      const answered = Math.floor(this.#read / this.#replyBytes)
      if (sent < count && sent - answered < this.#depth) {
        this.#socket.cork()
        for (; sent < count && sent - answered < this.#depth; sent += 1) send(sent)
        this.#socket.uncork()
      }
      if (answered === count) resolve()
    }
    this.#onRead()
    await promise
  }
}
