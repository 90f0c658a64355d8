import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { AGENT_TRACE, hasAgentTrace } from './public-trace.ts'

/** The prompts of a session of a software agent, turn by turn: of the public trace where it is there, else one like it. */
export function agentSession(turns: number): string[] {
  return hasAgentTrace ? publicSession(turns) : madeSession(turns)
}

function publicSession(turns: number): string[] {
  const lines = gunzipSync(readFileSync(AGENT_TRACE)).toString('utf8').trimEnd().split('\n')
  const requests = lines.slice(0, 200).map((line) => JSON.parse(line) as { input: string; session_id: string })
  const first = requests[0]!.session_id
  return requests
    .filter(({ session_id: session }) => session === first)
    .slice(0, turns)
    .map(({ input }) => input)
}

function madeSession(turns: number): string[] {
  let said = 'You are a software engineer. Fix the bug that the report describes. '.repeat(40)
  return Array.from({ length: turns }, (_, turn) => {
    said += `THOUGHT: step ${turn}. COMMAND: sed -n ${turn},200p src/file-${turn}.py RESULT: ${'def f(x): ... '.repeat(120)}`
    return said
  })
}
