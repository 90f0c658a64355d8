import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../src/config/load-config.ts'
import { REDIS_DEFAULT } from '../../../src/l2/adapters/redis/options.ts'
import { TEST_MACHINE } from '../../support/machine.ts'

const BASE = 'name=r,type=redis,capacity=1GiB'

function backendOf(keys: string, env: Record<string, string> = {}) {
  const inputs = { argv: ['--l2', `${BASE},${keys}`], env, machine: TEST_MACHINE, readFile: () => '' }
  return loadConfig(inputs).options.l2.adapters[0]!.backend
}

describe('a redis adapter in the configuration', () => {
  it('has defaults for all but url and capacity', () => {
    expect(backendOf('url=redis://localhost')).toEqual({
      ...REDIS_DEFAULT,
      url: 'redis://localhost:6379/0',
      capacityBytes: 1024 ** 3,
    })
  })

  it('takes user and password out of the url', () => {
    expect(backendOf('url=rediss://kv%40tier:p%2Fw@[::1]:7000/3')).toMatchObject({
      url: 'rediss://[::1]:7000/3',
      username: 'kv@tier',
      password: 'p/w',
    })
  })

  it('takes the password from a variable, and makes paths of files absolute', () => {
    const keys = 'url=rediss://u@h,password-env=REDIS_PASSWORD,tls-ca=ca.pem,tls-cert=/c.pem,tls-key=k.pem'
    expect(backendOf(keys, { REDIS_PASSWORD: 'secret' })).toMatchObject({
      username: 'u',
      password: 'secret',
      tlsCaFile: '/home/someone/ca.pem',
      tlsCertFile: '/c.pem',
      tlsKeyFile: '/home/someone/k.pem',
    })
    expect(backendOf('url=redis://h,password-file=pw')).toMatchObject({ passwordFile: '/home/someone/pw' })
  })

  it('takes the nodes of a Cluster', () => {
    expect(backendOf('url=redis://a:1,cluster=true,nodes=b:2+[::1]:3')).toMatchObject({
      isCluster: true,
      nodes: ['b:2', '[::1]:3'],
    })
  })

  it.each([
    ['url=http://h', 'write redis://HOST:PORT'],
    ['url=redis://h/x', 'write redis://HOST:PORT'],
    ['url=redis://h?a=b', 'write redis://HOST:PORT'],
    ['url=redis://:p@h,password=q', 'write the password once'],
    ['url=redis://h,password-env=NONE', 'the environment has no NONE'],
    ['url=redis://h,nodes=a:1', 'no cluster=true'],
    ['url=redis://h,cluster=true,nodes=a', 'write HOST:PORT+HOST:PORT'],
    ['url=redis://h/1,cluster=true', 'database 0 only'],
    ['url=redis://h,tls-ca=ca.pem', 'rediss://'],
    ['url=rediss://h,tls-cert=c.pem', 'both tls-cert and tls-key'],
    ['url=redis://h,prefix={x}', 'write prefix with letters'],
    ['url=redis://h,pipelin=1MiB', 'did you mean pipeline?'],
    ['prefix=x', 'such as url=redis://127.0.0.1:6379'],
  ])('refuses %s, and says what to write', (keys, hint) => {
    expect(() => backendOf(keys)).toThrow(hint)
  })

  it('shows no password, neither in an error nor as a value', () => {
    expect(() => backendOf('url=redis://user:hunter2@h,cluster=maybe')).toThrow(/^((?!hunter2).)*$/)
    expect(() => backendOf('url=redis://h,password=hunter2,connections=0')).toThrow(/^((?!hunter2).)*$/)
  })
})
