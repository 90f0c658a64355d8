import type { Clock } from '../../core/clock.ts'
import type { SpaceId } from '../../core/ids.ts'
import type { Generation } from '../../protocol/mp/generations.ts'
import type { LookupHold } from './lookup-hold.ts'

/** Requests at most whose lookups one client may have open; the oldest is forgotten for a new one. */
const REQUESTS_MAX = 16_384
/** Waits at most for one lookup, and for all of one client. */
const WAITS_MAX = 8
const CLIENT_WAITS_MAX = 1024
/** Operations of one client that wait for the one before at most, and the bytes of their tokens. */
const QUEUED_MAX = 1024
const QUEUED_BYTES_MAX = 64 * 1024 * 1024

/**
 * What a scheduler asked for under one request id. Its answer is given out once; the job stays until the request ends,
 * and keeps neither tokens nor hashes alive: those are the session's, of which there are only so many bytes.
 */
export class LookupJob {
  /** Where the session of the request is. */
  space: SpaceId | null = null
  /** Its prompt is being hashed: nothing was asked of the engine yet. */
  isHashing = false
  isConsumed = false
  #hold: LookupHold | null = null
  #isDone = false
  #waiting: (() => void)[] = []

  get isDone(): boolean {
    return this.#isDone
  }

  /** What holds the lookup whose answer this is; null when nothing could be asked. */
  get hold(): LookupHold | null {
    return this.#hold
  }

  /** Idempotent. */
  finish(hold: LookupHold | null): void {
    if (this.#isDone) return
    this.#isDone = true
    this.#hold = hold
    for (const wake of this.#waiting.splice(0)) wake()
  }

  /** Runs `then` once the job is done or the time is up. */
  wait(timeoutMs: number, clock: Clock, then: () => void): void {
    if (this.#isDone || timeoutMs <= 0 || this.#waiting.length >= WAITS_MAX) {
      then()
      return
    }
    const wake = () => {
      timer.cancel()
      then()
    }
    const timer = clock.schedule(timeoutMs, () => {
      this.#waiting = this.#waiting.filter((one) => one !== wake)
      then()
    })
    this.#waiting.push(wake)
  }
}

/** One peer of the socket: a scheduler, a worker or a prober. */
export class Client {
  /** Its identity on the socket, as text of one character a byte. */
  readonly peer: string
  /** Its numbering of operations, once known. */
  generation: Generation | null = null
  /** Those that fit what it has sent, while there are several; null = it has sent nothing that tells. */
  candidates: readonly Generation[] | null = null
  /** An answer that names another operation is an error to it, and not the end of its reading thread. */
  survivesOtherOps = false
  lastSeenMs: number
  /** It left the table: nothing that it waits for is of use any more. */
  isGone = false
  hasPinged = false
  /** It was told how to reach the path that is served. */
  wasWarned = false
  /** Operations of its that must stay in order wait for this. */
  tail: Promise<void> | null = null
  #queued = 0
  #queuedBytes = 0
  #waits = 0
  readonly #requests = new Map<string, LookupJob>()

  constructor(peer: string, nowMs: number) {
    this.peer = peer
    this.lastSeenMs = nowMs
  }

  /** Takes a place in the queue behind `tail`. @param bytes that wait with it. @returns false when there is none. */
  enqueue(bytes: number): boolean {
    if (this.#queued >= QUEUED_MAX || (this.#queued > 0 && this.#queuedBytes + bytes > QUEUED_BYTES_MAX)) return false
    this.#queued += 1
    this.#queuedBytes += bytes
    return true
  }

  dequeue(bytes: number): void {
    this.#queued -= 1
    this.#queuedBytes -= bytes
  }

  /** Waits for a lookup, if the client does not wait for too many already. */
  async wait(job: LookupJob, timeoutMs: number, clock: Clock): Promise<void> {
    if (this.#waits >= CLIENT_WAITS_MAX) return
    this.#waits += 1
    await new Promise<void>((resolve) => job.wait(timeoutMs, clock, resolve))
    this.#waits -= 1
  }

  job(requestId: string): LookupJob | undefined {
    return this.#requests.get(requestId)
  }

  startJob(requestId: string): LookupJob {
    this.#requests.get(requestId)?.finish(null)
    this.#requests.delete(requestId)
    if (this.#requests.size >= REQUESTS_MAX) {
      const [oldest, forgotten] = this.#requests.entries().next().value!
      forgotten.finish(null)
      this.#requests.delete(oldest)
    }
    const job = new LookupJob()
    this.#requests.set(requestId, job)
    return job
  }

  endJob(requestId: string): LookupJob | undefined {
    const job = this.#requests.get(requestId)
    this.#requests.delete(requestId)
    job?.finish(null)
    return job
  }

  /** @returns the jobs by request id. */
  endJobs(): readonly (readonly [string, LookupJob])[] {
    const jobs = [...this.#requests]
    this.#requests.clear()
    for (const [, job] of jobs) job.finish(null)
    return jobs
  }
}

/** The peers by identity, bounded: the one heard of longest ago makes room. */
export class ClientTable {
  readonly #limit: number
  readonly #onGone: (client: Client) => void
  readonly #clients = new Map<string, Client>()

  /** @param onGone told of a client that leaves the table. */
  constructor(limit: number, onGone: (client: Client) => void) {
    this.#limit = limit
    this.#onGone = onGone
  }

  get count(): number {
    return this.#clients.size
  }

  /** The client, heard of just now; made at the first call. */
  heard(peer: string, nowMs: number): Client {
    const client = this.#clients.get(peer) ?? new Client(peer, nowMs)
    this.#clients.delete(peer)
    this.#clients.set(peer, client)
    client.lastSeenMs = nowMs
    if (this.#clients.size > this.#limit) this.#remove(this.#clients.keys().next().value!)
    return client
  }

  /** Forgets who was silent for longer than `silentMs`, or `graceMs` when it never sent a heartbeat. */
  sweep(nowMs: number, silentMs: number, graceMs: number): void {
    for (const [key, client] of this.#clients) {
      if (nowMs - client.lastSeenMs > (client.hasPinged ? silentMs : graceMs)) this.#remove(key)
    }
  }

  #remove(key: string): void {
    const client = this.#clients.get(key)!
    this.#clients.delete(key)
    client.isGone = true
    this.#onGone(client)
  }
}
