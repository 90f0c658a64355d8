import { type Static, Type } from 'typebox'
import { CacheError } from '../../core/errors.ts'
import { MODEL_LENGTH_MAX, SALT_FORBIDDEN, SALT_LENGTH_MAX } from '../../core/ids.ts'

/** Tokens of one prompt at most. */
export const TOKENS_MAX = 1_048_576
/** Bytes of a JSON body at most; of a binary prompt, four a token. */
export const JSON_BODY_MAX = 4 * 1024 * 1024
/** Ranks of one model at most. */
export const RANKS_MAX = 255

export const ModelName = Type.String({ minLength: 1, maxLength: MODEL_LENGTH_MAX, description: 'Name of the model.' })
export const CacheSalt = Type.String({
  maxLength: SALT_LENGTH_MAX,
  default: '',
  description: 'Separates tenants: chunks of one salt are never seen under another. None of @ / \\ NUL.',
})
export const Ranks = Type.Integer({
  minimum: 1,
  maximum: RANKS_MAX,
  description: 'World size. Needed only when the model is registered with several.',
})
export const Tokens = Type.Array(Type.Integer({ minimum: 0, maximum: 4_294_967_295 }), {
  maxItems: TOKENS_MAX,
  description: 'Token ids of the prompt, from its start.',
})
export const Hash = Type.String({ pattern: '^[0-9a-fA-F]{64}$', description: 'Chunk hash, 64 hex digits.' })
export const RequestId = Type.String({ minLength: 1, maxLength: 128, description: "The client's name of the request." })
export const OpaqueId = Type.String({ minLength: 1, maxLength: 128 })
/** A count of bytes or things that may pass 2^32. */
export const Count = Type.Integer({ minimum: 0, format: 'int64' })

export const ErrorAnswer = Type.Object(
  {
    error: Type.Object({
      code: Type.String({ description: 'The contract; the message is for people.' }),
      message: Type.String(),
      field: Type.Optional(Type.String({ description: 'The request field at fault.' })),
      requestId: Type.String(),
    }),
  },
  { description: 'Any error.' },
)

/** What every route may answer besides its own. */
export const errorAnswers = { '4xx': ErrorAnswer, '5xx': ErrorAnswer } as const

export const NoQuery = Type.Object({}, { additionalProperties: false })

/** What names a set of chunks in most requests. */
export interface Names {
  readonly model?: string | undefined
  readonly cache_salt?: string | undefined
}

/**
 * Checks what a schema cannot say of names that become metric labels and storage keys.
 *
 * @throws CacheError BAD_REQUEST
 */
export function checkNames(names: Names): void {
  const { model, cache_salt: salt } = names
  if (model !== undefined) checkText('model', model, MODEL_LENGTH_MAX)
  if (salt === undefined) return
  checkText('cache_salt', salt, SALT_LENGTH_MAX)
  if (SALT_FORBIDDEN.test(salt)) throw badRequest('cache_salt', 'cache_salt may hold none of @ / \\ NUL')
}

function checkText(field: string, value: string, lengthMax: number): void {
  if (value.length > lengthMax) throw badRequest(field, `${field} is longer than ${lengthMax}`)
  if (!value.isWellFormed()) throw badRequest(field, `${field} is not valid Unicode`)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
  if (/[\u0000-\u001f\u007f]/.test(value)) throw badRequest(field, `${field} holds a control character`)
}

export function badRequest(field: string, message: string): CacheError {
  return new CacheError('BAD_REQUEST', message, { field })
}

export type TokensArray = Static<typeof Tokens>
