// Makes argv[3] tokens in the data directory argv[2], as a command line would.
import { SystemClock } from '../../../src/core/clock.ts'
import { createToken } from '../../../src/server/http/token-file.ts'

const clock = new SystemClock()
for (let made = 0; made < Number(process.argv[3]); made += 1) createToken(process.argv[2]!, { scopes: ['read'] }, clock)
