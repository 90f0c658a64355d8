import { type Command, decodeCommand, errorCommand, type PeerMetadata, pongCommand, readyCommand } from './commands.ts'
import { COMMAND, LONG, MORE } from './frames.ts'
import { GREETING, GREETING_BYTES, greetingFault } from './greeting.ts'
import type { HeldMemory } from './held-memory.ts'
import { InputWindow } from './input-window.ts'

const IDENTITY_BYTES_MAX = 255
const FLAGS = MORE | LONG | COMMAND
const SHORT_HEAD_BYTES = 2
const LONG_HEAD_BYTES = 9
const COMMAND_BYTES_MAX = 64 * 1024

/** Why a connection is of no use. `refused` = the peer said so. */
export type ZmtpFault =
  | 'not_zmtp'
  | 'old_version'
  | 'mechanism'
  | 'handshake'
  | 'socket_type'
  | 'identity'
  | 'frame'
  | 'too_long'
  | 'no_memory'
  | 'refused'

/** What the peer is told of it, in an ERROR command. Of the others it learns by the end of the connection. */
const REASONS: { readonly [Fault in ZmtpFault]?: string } = {
  mechanism: 'the only mechanism here is NULL',
  socket_type: 'no such socket is spoken to here',
  identity: 'an identity has at most 255 bytes, and does not begin with zero',
}

export interface ZmtpOptions {
  /** What this side is. */
  readonly socketType: string
  /** What the other may be. */
  readonly peerTypes: readonly string[]
  /** Bytes of a message at most, all its frames together with their heads. */
  readonly messageBytesMax: number
  /** Frames of a message at most. */
  readonly framesMax: number
  /**
   * This side says READY when it is told to (`welcome`), after it has heard who the other is: a peer that is not wanted
   * keeps its messages. One side of two may do so.
   */
  readonly isWelcoming: boolean
}

/** `none` = nothing until more bytes come. */
export type ZmtpEvent = 'none' | 'ready' | 'message' | 'broken'

/**
 * One side of one connection of ZMTP 3 (RFC 37, and 23 below it), without its socket: bytes go in, events and bytes to
 * send come out. Mechanism NULL.
 *
 *   greeting --> handshake --(READY)--> traffic
 *       '------------'-------------------'--> broken: nothing is read any more
 *
 * A peer is not trusted: lengths are checked before memory is taken, and memory is taken as bytes come. Unknown commands
 * are ignored once the handshake is over, as the protocol demands.
 */
export class ZmtpConnection {
  readonly #options: ZmtpOptions
  readonly #input: InputWindow
  readonly #identity: Uint8Array
  #state: 'greeting' | 'handshake' | 'traffic' | 'broken' = 'greeting'
  #output: Uint8Array[] = []
  #frames: Uint8Array[] = []
  /** Bytes of the window that were read: whole frames of the message under way. */
  #read = 0
  /** Where its frames start and end in the window, in turn. */
  readonly #bounds: number[] = []
  #isWhole = false
  fault: ZmtpFault | null = null
  /** Of the peer, once it is `ready`. */
  peer: PeerMetadata = { socketType: '', identity: new Uint8Array(0) }
  /** The peer wants to be taken for dead when it is silent for so long; 0 = it does not. */
  ttlMs = 0

  /** @param memory of this and other connections. @param identity of this side; empty = none. */
  constructor(options: ZmtpOptions, memory: HeldMemory, identity: Uint8Array = new Uint8Array(0)) {
    this.#options = options
    this.#input = new InputWindow(memory)
    this.#identity = identity
    this.#output.push(GREETING)
  }

  /** Of the message, after `message`: views that are right until the next call of `next` or `push`. */
  get frames(): readonly Uint8Array[] {
    return this.#frames
  }

  /** Something may follow the message, without more bytes. */
  get hasMore(): boolean {
    return this.#input.leftAfter(this.#read) > 0
  }

  get isReady(): boolean {
    return this.#state === 'traffic'
  }

  /** More bytes of the peer; `next` has said `none` to those before. */
  push(chunk: Buffer): void {
    this.#forget()
    this.#input.push(chunk)
  }

  /** What happens next. Look at `takeOutput` after it, whatever it is. */
  next(): ZmtpEvent {
    this.#forget()
    if (this.#state === 'greeting') this.#greet()
    while (this.#state === 'handshake' || this.#state === 'traffic') {
      const size = this.#frameSize()
      if (size === 0) break
      const flags = this.#input.byte(this.#read)
      const start = this.#read + headBytes(flags)
      this.#read += size
      if ((flags & COMMAND) !== 0) {
        if (this.#command(decodeCommand(this.#input.view(start, this.#read)))) return 'ready'
      } else if (this.#frame(start, this.#read, flags)) return 'message'
    }
    if (this.#input.isOutOfMemory) this.#break('no_memory')
    return this.#state === 'broken' ? 'broken' : 'none'
  }

  /** Says READY: see `ZmtpOptions.isWelcoming`. */
  welcome(): void {
    this.#output.push(readyCommand(this.#options.socketType, this.#identity))
  }

  /** What is to be sent, in order, for the handshake and for heartbeats. */
  takeOutput(): readonly Uint8Array[] {
    if (this.#output.length === 0) return this.#output
    const output = this.#output
    this.#output = []
    return output
  }

  /** Gives back its memory; nothing is read any more. */
  close(): void {
    this.#state = 'broken'
    this.#frames = []
    this.#input.release()
  }

  #greet(): void {
    const isWhole = this.#input.has(GREETING_BYTES)
    const fault = greetingFault(this.#input.head(GREETING_BYTES))
    if (fault !== null) this.#break(fault)
    else if (isWhole) {
      this.#input.drop(GREETING_BYTES)
      this.#state = 'handshake'
      if (!this.#options.isWelcoming) this.welcome()
    }
  }

  /** Bytes of the frame that comes next, its head included, once all are there; 0 = not yet, or broken. */
  #frameSize(): number {
    const at = this.#read
    const input = this.#input
    if (!input.has(at + SHORT_HEAD_BYTES)) return 0
    const flags = input.byte(at)
    const isCommand = (flags & COMMAND) !== 0
    if ((flags & ~FLAGS) !== 0 || (isCommand && (flags & MORE) !== 0)) return this.#break('frame')
    let length = input.byte(at + 1)
    if ((flags & LONG) !== 0) {
      if (!input.has(at + LONG_HEAD_BYTES)) return 0
      length = input.uint32(at + 1) * 2 ** 32 + input.uint32(at + 5)
    }
    const size = headBytes(flags) + length
    const bytesMax = this.#options.messageBytesMax
    if (at + size > bytesMax || (isCommand && length > COMMAND_BYTES_MAX)) return this.#break('too_long')
    return input.has(at + size) ? size : 0
  }

  /** @returns whether the message is whole. */
  #frame(start: number, end: number, flags: number): boolean {
    if (this.#state !== 'traffic') return this.#break('handshake') > 0
    const bounds = this.#bounds
    if (bounds.length >= 2 * this.#options.framesMax) return this.#break('too_long') > 0
    bounds.push(start, end)
    if ((flags & MORE) !== 0) return false
    for (let at = 0; at < bounds.length; at += 2) this.#frames.push(this.#input.view(bounds[at]!, bounds[at + 1]!))
    this.#isWhole = true
    return true
  }

  /** @returns whether the peer is ready now. */
  #command(command: Command): boolean {
    const isOver = this.#state === 'traffic'
    if (command.name === 'PING' && isOver) {
      this.ttlMs = command.ttlMs
      this.#output.push(pongCommand(command.context))
    } else if (command.name === 'ERROR') this.#break('refused')
    else if (command.name === 'READY' && !isOver) this.#meet(command.metadata)
    else if (!isOver || command.name === 'READY' || command.name === 'bad') this.#break(isOver ? 'frame' : 'handshake')
    // A command between two messages leaves nothing behind; one between two frames goes with the message.
    if (this.#bounds.length === 0 && this.#state === 'traffic') this.#drop()
    return !isOver && this.#state === 'traffic'
  }

  #meet(peer: PeerMetadata | null): void {
    if (peer === null) this.#break('handshake')
    else if (!this.#options.peerTypes.includes(peer.socketType)) this.#break('socket_type')
    else if (peer.identity.length > IDENTITY_BYTES_MAX || peer.identity[0] === 0) this.#break('identity')
    else {
      this.peer = peer
      this.#state = 'traffic'
    }
  }

  #break(fault: ZmtpFault): 0 {
    const reason = REASONS[fault]
    if (reason !== undefined) this.#output.push(errorCommand(reason))
    this.fault = fault
    this.close()
    return 0
  }

  /** Lets go of the message that was handed out. */
  #forget(): void {
    if (!this.#isWhole) return
    this.#isWhole = false
    this.#frames = []
    this.#drop()
  }

  #drop(): void {
    this.#input.drop(this.#read)
    this.#read = 0
    this.#bounds.length = 0
  }
}

function headBytes(flags: number): number {
  return (flags & LONG) === 0 ? SHORT_HEAD_BYTES : LONG_HEAD_BYTES
}
