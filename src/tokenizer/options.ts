/** Which tokenizers there are, and what they may cost. */
export interface TokenizerOptions {
  /** Absolute. Each holds `<vendor>/<model_name>/tokenizer.json`, or is a cache of the model hub. */
  readonly directories: readonly string[]
  /** `auto` takes the native library, and the one in JavaScript where the native one does not load. */
  readonly library: 'auto' | 'native' | 'javascript'
  /** Processes at most; they start when they are needed. */
  readonly processes: number
  /** Requests that may wait for a process. */
  readonly queueMax: number
  /** Tokenizers that each process keeps loaded. */
  readonly loadedMax: number
  /** Length of a text at most, in UTF-8. */
  readonly textBytesMax: number
  /** Time for one request in its process. */
  readonly deadlineMs: number
  /** `/tokenize` takes messages without a prompt, as vLLM does. */
  readonly allowMessagesAlone: boolean
  /** Requests may bring a chat template of their own. */
  readonly allowRequestTemplates: boolean
}
