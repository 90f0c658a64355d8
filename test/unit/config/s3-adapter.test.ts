import { describe, expect, it } from 'vitest'
import { withoutSecrets } from '../../../src/config/adapters/backends.ts'
import { loadConfig } from '../../../src/config/load-config.ts'
import { S3_DEFAULT } from '../../../src/l2/adapters/s3/options.ts'
import { TEST_MACHINE } from '../../support/machine.ts'

const BASE = 'name=s,type=s3,capacity=1GiB'
const AWS = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret', AWS_SESSION_TOKEN: 'session' }

function backendOf(keys: string, env: Record<string, string> = AWS) {
  const inputs = { argv: ['--l2', `${BASE},${keys}`], env, machine: TEST_MACHINE, readFile: () => '' }
  return loadConfig(inputs).options.l2.adapters[0]!.backend
}

describe('an s3 adapter in the configuration', () => {
  it('needs a bucket and a capacity, and takes its keys from the environment', () => {
    expect(backendOf('bucket=chunks')).toEqual({
      ...S3_DEFAULT,
      bucket: 'chunks',
      accessKey: 'id',
      secretKey: 'secret',
      sessionToken: 'session',
      capacityBytes: 1024 ** 3,
    })
    expect(backendOf('bucket=chunks', { ...AWS, AWS_REGION: 'eu-north-1' })).toMatchObject({ region: 'eu-north-1' })
    expect(backendOf('bucket=chunks,region=mars', { ...AWS, AWS_REGION: 'x' })).toMatchObject({ region: 'mars' })
  })

  it('does not mix keys of its own with a session of the environment', () => {
    expect(backendOf('bucket=chunks,access-key=own,secret-key-env=OWN', { ...AWS, OWN: 'hidden' })).toMatchObject({
      accessKey: 'own',
      secretKey: 'hidden',
      sessionToken: '',
    })
  })

  it('leaves the keys to a file, whose path becomes absolute', () => {
    expect(backendOf('bucket=chunks,credentials-file=aws,tls-ca=ca.pem')).toMatchObject({
      accessKey: '',
      secretKey: '',
      credentialsFile: '/home/someone/aws',
      caFile: '/home/someone/ca.pem',
    })
  })

  it('ends a prefix with a slash, and cuts an endpoint to its origin', () => {
    const keys = 'bucket=chunks,prefix=a/b,endpoint=http://127.0.0.1:9000/,style=virtual-host'
    expect(backendOf(keys)).toMatchObject({
      prefix: 'a/b/',
      endpoint: 'http://127.0.0.1:9000',
      addressing: 'virtual-host',
    })
    expect(backendOf('bucket=chunks,prefix=')).toMatchObject({ prefix: '' })
  })

  it.each([
    ['bucket=Chunks', '3 to 63 lower-case letters'],
    ['bucket=a.b,style=virtual-host', 'write style=path'],
    ['bucket=chunks,endpoint=s3.example', 'write https://HOST or http://HOST:PORT'],
    ['bucket=chunks,endpoint=https://u:p@s3.example', 'write https://HOST or http://HOST:PORT'],
    ['bucket=chunks,endpoint=https://s3.example/chunks', 'without a path'],
    ['bucket=chunks,prefix=/a', 'prefix is wrong'],
    ['bucket=chunks,prefix=a/../b', 'prefix is wrong'],
    ['bucket=chunks,region=a b', 'region is wrong'],
    ['bucket=chunks,part-size=1MiB', 'write at least 5MiB'],
    ['bucket=chunks,credentials-file=f,access-key=a', 'keys twice'],
    ['bucket=chunks,secret-key=a,secret-key-env=B', 'not both'],
    ['bucket=chunks,access-key=a,secret-key-env=NONE', 'the environment has no NONE'],
    ['prefix=a', 'write a bucket for s'],
  ])('refuses %s and says what to write', (keys, message) => {
    expect(() => backendOf(keys)).toThrow(message)
  })

  it('says where keys may come from when there are none', () => {
    expect(() => backendOf('bucket=chunks', {})).toThrow(/s has no access key: set AWS_ACCESS_KEY_ID/)
    expect(() => backendOf('bucket=chunks,access-key=a', {})).toThrow(/s has no secret key/)
  })

  it('refuses two adapters in one place', () => {
    const argv = ['--l2', `${BASE},bucket=chunks`, '--l2', `${BASE.replace('=s,', '=t,')},bucket=chunks`]
    const load = () => loadConfig({ argv, env: AWS, machine: TEST_MACHINE, readFile: () => '' })
    expect(load).toThrow(/chunks\/kvtier\//)
  })

  it('shows no secrets', () => {
    const shown = JSON.stringify(withoutSecrets(backendOf('bucket=chunks')))
    expect(shown).not.toContain('secret"')
    expect(shown).not.toContain('session"')
    expect(shown).toContain('"secretKey":"***"')
    expect(() => backendOf('bucket=chunks,secret-key=hunter2,part-size=1')).toThrow(/^(?!.*hunter2)/)
  })
})
