import { join } from 'node:path'

/** The last result of `npm run bench`; not committed. To make it the baseline, copy it to `bench/baselines`. */
export const RESULT_FILE = join(import.meta.dirname, '../results/last.json')
