import { type Static, Type } from 'typebox'
import { MODEL_LENGTH_MAX } from '../../core/ids.ts'
import type { TokenizerOptions } from '../../tokenizer/options.ts'
import type { ChatInput, ChatMessage, TextInput } from '../../tokenizer/tokenizer-port.ts'
import { badRequest } from './schemas.ts'

/** Messages and tools of one request at most, and how deep they may nest. */
const MESSAGES_MAX = 4096
const DEPTH_MAX = 32

/** What routes need to know of the tokenizer's options. */
export type TextOptions = Pick<TokenizerOptions, 'allowMessagesAlone' | 'allowRequestTemplates'>

export const TextModelName = Type.String({
  minLength: 1,
  maxLength: MODEL_LENGTH_MAX,
  description: 'Name of the model, as <vendor>/<model_name>.',
})

const Message = Type.Object(
  {
    role: Type.String({ minLength: 1, maxLength: 64 }),
    content: Type.Optional(Type.Unknown({ description: 'Text, or a list of parts {type: "text", text}.' })),
  },
  { additionalProperties: true },
)
const Anything = Type.Object({}, { additionalProperties: true })

/** Fields of a request that brings a chat; they mean what they mean in vLLM. */
export const chatFields = {
  messages: Type.Optional(Type.Array(Message, { maxItems: MESSAGES_MAX, description: 'A chat.' })),
  tools: Type.Optional(
    Type.Union([Type.Array(Anything, { maxItems: MESSAGES_MAX }), Type.Null()], {
      description: 'Functions that the model may call, for the chat template.',
    }),
  ),
  add_generation_prompt: Type.Optional(
    Type.Boolean({ default: true, description: "Ends the text with the opening of the assistant's answer." }),
  ),
  continue_final_message: Type.Optional(
    Type.Boolean({ default: false, description: 'Leaves the last message open; needs add_generation_prompt false.' }),
  ),
  chat_template: Type.Optional(
    Type.Union([Type.String(), Type.Null()], { description: 'Refused without --tokenizer-request-templates.' }),
  ),
  chat_template_kwargs: Type.Optional(
    Type.Union([Anything, Type.Null()], { description: 'Further variables of the chat template.' }),
  ),
} as const

const ChatFields = Type.Object(chatFields)
type ChatBody = Static<typeof ChatFields>

/** What a schema cannot say of a chat. @throws CacheError BAD_REQUEST */
export function checkChat(body: ChatBody, options: TextOptions): void {
  if ((body.chat_template ?? null) !== null && !options.allowRequestTemplates) {
    throw badRequest('chat_template', 'chat_template is taken only with --tokenizer-request-templates')
  }
  if (body.continue_final_message === true && body.add_generation_prompt !== false) {
    throw badRequest('continue_final_message', 'continue_final_message needs add_generation_prompt to be false')
  }
  for (const field of ['messages', 'tools', 'chat_template_kwargs'] as const) {
    if (isDeep(body[field])) throw badRequest(field, `${field} nests deeper than ${DEPTH_MAX}`)
  }
}

export function chatOf(body: ChatBody, messages: readonly ChatMessage[]): ChatInput {
  return {
    kind: 'chat',
    messages,
    tools: body.tools ?? null,
    addGenerationPrompt: body.add_generation_prompt ?? true,
    continueFinalMessage: body.continue_final_message ?? false,
    templateArguments: { ...body.chat_template_kwargs },
    template: body.chat_template ?? null,
  }
}

/** The text of a lookup: a prompt wins over messages. Undefined when there is neither. */
export function inputOf(body: ChatBody & { readonly prompt?: string }): TextInput | ChatInput | undefined {
  if (body.prompt !== undefined) return { kind: 'text', text: body.prompt }
  return body.messages === undefined ? undefined : chatOf(body, body.messages as readonly ChatMessage[])
}

// Level by level, because a recursion is what deep nesting is sent against.
function isDeep(value: unknown): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > DEPTH_MAX) return true
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? Object.values(one) : []))
  }
  return false
}
