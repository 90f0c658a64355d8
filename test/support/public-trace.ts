import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { skipUnless } from './skip-unless.ts'
import { REPOSITORY } from './source-tree.ts'

/** The public Mooncake conversation trace: 12,031 requests. It lies beside the checkout, or nowhere. */
export const CONVERSATION_TRACE = join(REPOSITORY, '../shared/data/traces/mooncake_conversation_trace.jsonl')

export const hasConversationTrace = existsSync(CONVERSATION_TRACE)

/** Options of a test that reads it. */
export const withConversationTrace = skipUnless(
  hasConversationTrace,
  'mooncake_conversation_trace.jsonl is not in ../shared/data/traces',
)

/** The public trace of software agents at work: 402 requests of 20 sessions, with their texts. */
export const AGENT_TRACE = join(REPOSITORY, '../shared/data/traces/lmcache_agent_miniswe.jsonl.gz')

export const hasAgentTrace = existsSync(AGENT_TRACE)

export const withAgentTrace = skipUnless(
  hasAgentTrace,
  'lmcache_agent_miniswe.jsonl.gz is not in ../shared/data/traces',
)
