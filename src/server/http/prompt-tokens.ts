import type { Static } from 'typebox'
import { Type } from 'typebox'
import type { ApiParts } from './api.ts'
import { badRequest, TOKENS_MAX, Tokens } from './schemas.ts'
import { chatFields, checkChat, inputOf } from './text-fields.ts'

/** Fields of a request about a prompt: its token ids, or its text, or a chat. */
export const promptFields = {
  tokens: Type.Optional(Tokens),
  prompt: Type.Optional(
    Type.String({ description: 'Text instead of tokens: the tokenizer of the model is asked. It wins over messages.' }),
  ),
  ...chatFields,
  add_special_tokens: Type.Optional(
    Type.Boolean({ description: 'As for POST /tokenize: true by default for a prompt, false for messages.' }),
  ),
} as const

const PromptFields = Type.Object(promptFields)
type PromptBody = Static<typeof PromptFields> & { readonly model: string }

/**
 * The token ids of a request's prompt.
 *
 * @throws CacheError BAD_REQUEST unless there is one of tokens, prompt and messages, and not tokens with text; what the
 *   tokenizer throws.
 */
export async function tokensOfPrompt(body: PromptBody, parts: ApiParts): Promise<Uint32Array> {
  const input = inputOf(body)
  if (body.tokens !== undefined) {
    if (input !== undefined) throw badRequest('tokens', 'tokens and a text exclude each other: send one of them')
    return Uint32Array.from(body.tokens)
  }
  if (input === undefined) throw badRequest('tokens', 'tokens, prompt or messages is required')
  checkChat(body, parts.textOptions)
  const addSpecialTokens = body.add_special_tokens ?? input.kind === 'text'
  const tokens = await parts.tokenizer.encode({ model: body.model, input, addSpecialTokens, withStrings: false })
  if (tokens.length > TOKENS_MAX)
    throw badRequest(
      input.kind === 'text' ? 'prompt' : 'messages',
      `it has ${tokens.length} tokens, more than ${TOKENS_MAX}`,
    )
  return tokens
}
