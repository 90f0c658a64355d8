import { setFlagsFromString } from 'node:v8'

/** What a heap may grow by between two collections of all of it, in per cent of what lived through the last. */
const GROWTH_PERCENT = 300

/**
 * Lets heaps grow further before all of them is collected. The engine keeps little in them, 20 MB, and the tokens of each
 * request count as part of them as long as they live: with V8's own choice a client that asks for prompts of 32k tokens
 * has the heap collected every 40 requests, which takes a quarter of the processor time and 20 ms of each 100.
 * `npm run bench -- rival-wire` shows it. Costs tens of MB.
 */
export function letHeapsGrow(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`)
}
