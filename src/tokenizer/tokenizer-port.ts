/**
 * The tokenizers as HTTP routes and commands see them. The work is done in other processes.
 *
 * @throws CacheError of every method: BAD_REQUEST for a text that cannot be taken, TOKENIZER_UNKNOWN for a model without
 *   a tokenizer, TEMPLATE_FAILED, TOKENIZER_BROKEN, TOKENIZER_BUSY, TOKENIZER_TIMEOUT, SHUTTING_DOWN.
 */
export interface TokenizerPort {
  /** Every model that has a tokenizer, by name. */
  models(): Promise<readonly TokenizerModel[]>
  /** The answer of `/tokenize` as JSON text in UTF-8: made where the tokens are, so that nobody else writes it. */
  tokenize(query: TokenizeQuery): Promise<Uint8Array>
  /** Token ids alone. */
  encode(query: TokenizeQuery): Promise<Uint32Array>
  /** The text of token ids, special tokens included. */
  decode(model: string, tokens: readonly number[]): Promise<string>
}

export interface TokenizerModel {
  /** `<vendor>/<model_name>` */
  readonly model: string
  /** Tokens of the longest context; null = the files do not say. */
  readonly maxModelLen: number | null
  readonly hasChatTemplate: boolean
}

export interface TokenizeQuery {
  readonly model: string
  readonly input: TextInput | ChatInput
  /** Adds what the model puts around every text, such as a token of its beginning. */
  readonly addSpecialTokens: boolean
  /** Whether `tokenize` tells the token strings. */
  readonly withStrings: boolean
}

export interface TextInput {
  readonly kind: 'text'
  readonly text: string
}

/** Messages, laid out by the chat template of the model. Fields mean what they mean in vLLM. */
export interface ChatInput {
  readonly kind: 'chat'
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly object[] | null
  /** Opens the answer of the assistant. */
  readonly addGenerationPrompt: boolean
  /** Leaves the last message open. */
  readonly continueFinalMessage: boolean
  /** Further variables of the template. */
  readonly templateArguments: Readonly<Record<string, unknown>>
  /** Instead of the model's own; null = the model's. */
  readonly template: string | null
}

export interface ChatMessage {
  readonly role: string
  readonly content?: unknown
  readonly [field: string]: unknown
}
