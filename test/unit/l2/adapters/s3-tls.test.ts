import { expect, it } from 'vitest'
import { OUTCOME_OK } from '../../../../src/l2/adapter.ts'
import type { S3AdapterOptions } from '../../../../src/l2/adapters/s3/options.ts'
import type { S3Adapter } from '../../../../src/l2/adapters/s3.ts'
import { loadChain, storeChain } from '../../../support/l2-objects.ts'
import { makeCertificates } from '../../../support/redis-server.ts'
import { needsS3Server, S3Server, s3Adapter } from '../../../support/s3-server.ts'

it(
  'an s3 adapter over TLS trusts the authority of tls-ca, and names the option when it is missing',
  needsS3Server(),
  async () => {
    const certificates = makeCertificates()
    const server = await S3Server.start(certificates)
    const { endpoint } = server
    const opened = async (changes: Partial<S3AdapterOptions>): Promise<S3Adapter> => {
      const adapter = s3Adapter(server.options({ prefix: 'tls/', relistMs: 0, endpoint, ...changes }))
      await adapter.open()
      return adapter
    }
    try {
      const adapter = await opened({ caFile: certificates.ca })
      await storeChain(adapter, 1, 0, 2)
      expect(await loadChain(adapter, 1, 0, 2)).toEqual([OUTCOME_OK, OUTCOME_OK])
      await adapter.close()
      await expect(opened({})).rejects.toMatchObject({ detail: { field: 'tls-ca' } })
      await expect(opened({ caFile: '/nowhere.pem' })).rejects.toMatchObject({
        code: 'CONFIG_INVALID',
        detail: { field: 'tls-ca' },
      })
    } finally {
      await server.stop()
      certificates.remove()
    }
  },
)
