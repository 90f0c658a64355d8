/** Other engines, asked over their HTTP interface for what they have in L1. Read-only. */
export interface PeerAdapterOptions {
  readonly type: 'peer'
  /** Where each peer answers: `http://HOST:PORT`, or https. */
  readonly urls: readonly string[]
  /** Like a URL, but of a name that has the addresses of all peers: a headless Service. '' = none. */
  readonly service: string
  /** How often the name is resolved again, and the token's file read again. */
  readonly resolveMs: number
  /** Of scope inference, the same for every peer. '' = none. */
  readonly token: string
  /** File that has it instead. '' = none. */
  readonly tokenFile: string
  /** Shards that are fetched at the same time. */
  readonly parallelism: number
  /** A peer that says nothing for so long is given up. */
  readonly answerMs: number
}

export const PEER_DEFAULT: PeerAdapterOptions = {
  type: 'peer',
  urls: [],
  service: '',
  resolveMs: 10_000,
  token: '',
  tokenFile: '',
  parallelism: 8,
  answerMs: 500,
}

/** The origin of a peer's URL; undefined when the text is none, or has a path, a query or a user. */
export function peerOrigin(text: string): string | undefined {
  const url = URL.parse(text)
  const isFine = url !== null && /^https?:$/.test(url.protocol) && `${url.username}${url.password}` === ''
  return isFine && url.pathname === '/' && `${url.search}${url.hash}` === '' ? url.origin : undefined
}
