import { CacheError } from '../core/errors.ts'

/** Refuses a text that is too long, or that no UTF-8 can hold. @throws CacheError BAD_REQUEST, PAYLOAD_TOO_LARGE */
export function checkText(text: string, field: string, bytesMax: number): void {
  if (text.length > bytesMax || Buffer.byteLength(text) > bytesMax) {
    const message = `${field} is longer than the ${bytesMax} bytes of --tokenizer-text-max`
    throw new CacheError('PAYLOAD_TOO_LARGE', message, { field })
  }
  if (text.isWellFormed()) return
  throw new CacheError('BAD_REQUEST', `${field} is not valid Unicode: it holds half of a surrogate pair`, { field })
}
