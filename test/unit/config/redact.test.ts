import { expect, it } from 'vitest'
import { redact } from '../../../src/config/redact.ts'

it.each([
  ['redis://user:pa:ss@host:1/0', 'redis://***@host:1/0'],
  ['name=r,type=redis,url=rediss://:p@h,capacity=1GiB', 'name=r,type=redis,url=rediss://***@h,capacity=1GiB'],
  ['url=redis://u:p%40@h,prefix=a@b', 'url=redis://***@b'], // rather too much than too little
  ['password=hunter2,name=x', 'password=***,name=x'],
  ['{"secret-key":"abc","name":"x"}', '{"secret-key":"***","name":"x"}'],
  ['{"token": "abc"}', '{"token": "***"}'],
  ['http://host:1/path?a=b', 'http://host:1/path?a=b'],
])('shows %s without its secrets', (text, shown) => {
  expect(redact(text)).toBe(shown)
})
