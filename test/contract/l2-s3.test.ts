import { afterAll, beforeAll } from 'vitest'
import { S3_DEFAULT, type S3AdapterOptions } from '../../src/l2/adapters/s3/options.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { SPACE } from '../support/l2-objects.ts'
import { needsS3Server, S3Server, s3Adapter } from '../support/s3-server.ts'
import { l2AdapterContract, remote, type Subject } from './l2-adapter-contract.ts'

let server: S3Server
let made = 0

beforeAll(async () => {
  if (!needsS3Server().skip) server = await S3Server.start()
})

afterAll(() => server?.stop())

/** Adapters on one server, each with a prefix of its own. */
function s3(style: 'path' | 'virtual-host', changes: Partial<S3AdapterOptions> = {}): Subject {
  return {
    objectBytes: HEADER_BYTES + SPACE.shardBytes,
    make: (capacityBytes) => {
      made += 1
      const own = { ...changes, prefix: `${made}/`, capacityBytes }
      return { adapter: s3Adapter(style === 'path' ? server.options(own) : server.virtualHost(own)), dispose: () => {} }
    },
  }
}

const arena = new Uint8Array(new SharedArrayBuffer(1 << 20), 512)
const SUBJECTS: Record<string, Subject> = {
  's3, by path,': s3('path'),
  's3, by host name, signatures without the bytes,': s3('virtual-host', { payload: 'unsigned' }),
  's3, asking for each key,': s3('path', { lookup: 'head' }),
  's3, one request at a time,': s3('path', { parallelism: 1 }),
  'remote s3': remote(s3('path'), { ...S3_DEFAULT, bucket: '' }),
  'remote s3, from the arena,': remote(s3('path'), { ...S3_DEFAULT, bucket: '' }, arena),
}

for (const [name, subject] of Object.entries(SUBJECTS)) l2AdapterContract(name, subject, needsS3Server())
