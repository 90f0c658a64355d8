import { resolve } from 'node:path'
import { PEER_DEFAULT, type PeerAdapterOptions, peerOrigin } from '../../l2/adapters/peer/options.ts'
import { duration, integer, Refusal, text } from '../fields.ts'
import { formatDurationMs } from '../units.ts'
import { type BackendSyntax, words } from './adapter-entry.ts'

/** `type=peer`: what other engines have in L1. */
export const peerSyntax: BackendSyntax<PeerAdapterOptions> = {
  fields: {
    urls: words('urls', 'HTTP addresses of other engines, http://HOST:PORT+http://HOST:PORT.'),
    service: text('service', '', 'http://NAME:PORT of a name that has the addresses of all: a headless Service.', {
      minimum: 0,
    }),
    resolveMs: duration(
      'resolve',
      formatDurationMs(PEER_DEFAULT.resolveMs),
      { minimumMs: 1_000, maximumMs: 3_600_000 },
      'How often that name is resolved again.',
    ),
    token: text('token', '', 'Token of scope inference. Rather a file: others may read command lines.', { minimum: 0 }),
    tokenFile: text('token-file', '', 'File with the token, read again as often as the name.', { minimum: 0 }),
    parallelism: integer(
      'parallelism',
      PEER_DEFAULT.parallelism,
      { minimum: 1, maximum: 256 },
      'Shards fetched at a time.',
    ),
    answerMs: duration(
      'answer',
      formatDurationMs(PEER_DEFAULT.answerMs),
      { minimumMs: 10, maximumMs: 60_000 },
      'A peer that says nothing for so long is given up.',
    ),
  },
  fixed: {},
  required: {},
  secrets: ['token'],
  finish: (options, name, { machine }) => {
    const { urls, service, token, tokenFile } = options
    if (urls.length === 0 && service === '') {
      throw new Refusal(`write urls or service for ${name}, such as urls=http://10.0.0.2:8080`)
    }
    for (const url of [...urls, ...(service === '' ? [] : [service])]) {
      if (peerOrigin(url) === undefined) throw new Refusal('urls or service is wrong: write http://HOST:PORT')
    }
    if (token !== '' && tokenFile !== '') throw new Refusal('write the token once: in token or token-file')
    return { ...options, tokenFile: tokenFile === '' ? '' : resolve(machine.workingDirectory, tokenFile) }
  },
}
