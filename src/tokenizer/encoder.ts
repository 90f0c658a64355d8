import type { ModelFiles } from './model-files.ts'
import type { TokenizerOptions } from './options.ts'

/** One loaded tokenizer. */
export interface Encoder {
  /** @param text valid Unicode. */
  encode(text: string, addSpecialTokens: boolean): Promise<Encoded>
  /** The text of token ids, special tokens included. Every id is known. */
  decode(tokens: readonly number[]): Promise<string>
  /** The token's string, as the vocabulary has it; undefined for an unknown id. */
  tokenOf(id: number): string | undefined
}

export interface Encoded {
  readonly ids: readonly number[]
  /** Token strings, as the vocabulary has them; n = ids.length. */
  strings(): readonly string[]
}

/**
 * Loads a tokenizer, with the library that the options ask for.
 *
 * @throws whatever the library throws for files that it does not understand.
 */
export async function openEncoder(files: ModelFiles, library: TokenizerOptions['library']): Promise<Encoder> {
  if (library !== 'javascript' && (library === 'native' || (await isNativeThere()))) {
    const { NativeEncoder } = await import('./native-encoder.ts')
    return NativeEncoder.open(files)
  }
  const { JavaScriptEncoder } = await import('./javascript/javascript-encoder.ts')
  return await JavaScriptEncoder.open(files)
}

/** Whether the native library loads on this platform. */
export async function isNativeThere(): Promise<boolean> {
  try {
    await import('tokenizers')
    return true
  } catch {
    return false
  }
}
