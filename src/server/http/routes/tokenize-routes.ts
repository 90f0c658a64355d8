import { type Static, Type } from 'typebox'
import type { ChatMessage, TokenizeQuery } from '../../../tokenizer/tokenizer-port.ts'
import type { Api, ApiParts } from '../api.ts'
import { badRequest, Count, errorAnswers, JSON_BODY_MAX, NoQuery, TOKENS_MAX } from '../schemas.ts'
import { chatFields, chatOf, checkChat, TextModelName } from '../text-fields.ts'

const TokenizeBody = Type.Object(
  {
    model: TextModelName,
    prompt: Type.Optional(Type.String({ description: 'The text. It wins over messages.' })),
    ...chatFields,
    add_special_tokens: Type.Optional(
      Type.Boolean({
        description:
          'Adds what the model puts around every text. Default: true for a prompt, false for messages, whose chat template adds it.',
      }),
    ),
    return_token_strs: Type.Optional(
      Type.Union([Type.Boolean(), Type.Null()], { default: true, description: 'Whether the answer has token_strs.' }),
    ),
  },
  { additionalProperties: false },
)
const Tokenized = Type.Object({
  count: Count,
  max_model_len: Type.Optional(
    Type.Integer({ description: 'Tokens of the longest context; absent when the files of the model do not say.' }),
  ),
  tokens: Type.Array(Type.Integer()),
  token_strs: Type.Optional(Type.Array(Type.String(), { description: 'As the vocabulary has them.' })),
})
const DetokenizeBody = Type.Object(
  {
    model: TextModelName,
    tokens: Type.Array(Type.Integer({ minimum: 0, maximum: 4_294_967_295 }), { maxItems: TOKENS_MAX }),
  },
  { additionalProperties: false },
)

/** Text to tokens and back. */
export function tokenizeRoutes(api: Api, parts: ApiParts): void {
  const { tokenizer } = parts
  const tokenize = {
    summary: 'Tokens of a text',
    description:
      'Of a prompt; or, with --tokenizer-messages-alone and no prompt, of messages laid out by the chat template of the model.',
    querystring: NoQuery,
    body: TokenizeBody,
    response: { 200: Tokenized, ...errorAnswers },
  }
  const config = { scope: 'inference' } as const
  api.post('/tokenize', { schema: tokenize, config, bodyLimit: JSON_BODY_MAX }, async (request, reply) => {
    const body = await tokenizer.tokenize(queryOf(request.body, parts))
    return reply.type('application/json; charset=utf-8').send(bufferOf(body) as never)
  })

  const detokenize = {
    summary: 'Text of tokens',
    description: 'Special tokens are part of the text.',
    querystring: NoQuery,
    body: DetokenizeBody,
    response: { 200: Type.Object({ prompt: Type.String() }), ...errorAnswers },
  }
  api.post('/detokenize', { schema: detokenize, config, bodyLimit: JSON_BODY_MAX }, async (request) => {
    return { prompt: await tokenizer.decode(request.body.model, request.body.tokens) }
  })
}

function queryOf(body: Static<typeof TokenizeBody>, { textOptions }: ApiParts): TokenizeQuery {
  const { model, prompt, messages, add_special_tokens, return_token_strs: wanted = true } = body
  const withStrings = wanted === true
  checkChat(body, textOptions)
  const isChat = textOptions.allowMessagesAlone && messages !== undefined && (prompt ?? '') === ''
  if (isChat) {
    const input = chatOf(body, messages as readonly ChatMessage[])
    return { model, input, addSpecialTokens: add_special_tokens ?? false, withStrings }
  }
  if (prompt === undefined) throw noPrompt(messages !== undefined)
  return { model, input: { kind: 'text', text: prompt }, addSpecialTokens: add_special_tokens ?? true, withStrings }
}

function noPrompt(hasMessages: boolean): Error {
  const why = hasMessages
    ? 'messages alone are taken only with --tokenizer-messages-alone'
    : 'it is the text to tokenize'
  return badRequest('prompt', `prompt is required: ${why}`)
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
