import type { Action } from '../activities/actions.ts'
import type { ActivityDraft } from '../activities/activity.ts'
import { parseDurationMs } from '../config/units.ts'
import { SystemClock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { makeDirectory } from '../native/make-directory.ts'
import { createToken, listTokens, revokeToken, type Scope, type TokenRecord } from '../server/http/token-file.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { dataDirOf } from './data-dir-option.ts'
import { recordAct } from './record-act.ts'
import { usageError } from './report-error.ts'
import { textTable } from './table.ts'

/** `kvtier token create|list|revoke`: works on the data directory; a running engine sees the change. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const verb = call.spec.name.split(' ')[1]
  if (verb === 'create') return create(call)
  return verb === 'list' ? list(call) : revoke(call)
}

function create(call: CommandCall): ExitCode {
  const scopes = String(call.options.scope ?? '')
  if (scopes === '') throw usageError('token create needs --scope; write one of: read, inference, admin', '--scope')
  const wanted = { scopes: scopes.split(',') as Scope[], ...nameOf(call), ...ttlOf(call) }
  const dataDir = dataDirOf(call)
  makeDirectory(dataDir)
  const { token, record } = recordAct(
    dataDir,
    () => createToken(dataDir, wanted, new SystemClock()),
    (created) => actOf('ACTIVITY_ACTION_TOKEN_CREATE', 'Created', created.record),
  )
  const json = { token, id: record.id, scopes: record.scopes, name: record.name, expires_at: record.expiresAt }
  answer(call, json, () => token)
  if (!call.isJson) call.terminal.log(`Token ${record.id}. It is shown this once; only its hash is kept.`)
  return 0
}

function actOf(action: Action, verb: string, record: TokenRecord): Omit<ActivityDraft, 'actor'> {
  const { id, name, scopes, expiresAt } = record
  const description = `${verb} a token of scope ${scopes.join(', ')}${name === '' ? '' : `, for ${name}`}.`
  return { action, resourceType: 'token', resourceId: id, description, metadata: { name, scopes, expiresAt } }
}

function nameOf(call: CommandCall): { name?: string } {
  return typeof call.options.name === 'string' ? { name: call.options.name } : {}
}

function ttlOf(call: CommandCall): { ttlMs?: number } {
  const text = call.options.ttl
  if (typeof text !== 'string') return {}
  const ttlMs = parseDurationMs(text)
  if (ttlMs === undefined || ttlMs <= 0)
    throw usageError(`--ttl is "${text}"; write a time such as 12h or 30d`, '--ttl')
  return { ttlMs }
}

function list(call: CommandCall): ExitCode {
  const nowMs = new SystemClock().wallMs()
  const tokens = listTokens(dataDirOf(call)).map((record) => ({
    id: record.id,
    name: record.name,
    scopes: record.scopes,
    state: stateOf(record, nowMs),
    created_at: record.createdAt,
    expires_at: record.expiresAt,
  }))
  const columns = [
    { title: 'id' },
    { title: 'name', wraps: true },
    { title: 'scopes' },
    { title: 'state' },
    { title: 'created' },
    { title: 'expires' },
  ]
  answer(call, { tokens }, () => {
    if (tokens.length === 0) return 'No tokens.'
    const day = (time: string | null): string => time?.slice(0, 10) ?? 'never'
    const rows = tokens.map((token) => [
      token.id,
      token.name,
      token.scopes.join(','),
      token.state,
      day(token.created_at),
      day(token.expires_at),
    ])
    return textTable(columns, rows)
  })
  return 0
}

function stateOf(record: TokenRecord, nowMs: number): 'valid' | 'revoked' | 'expired' {
  if (record.revokedAt !== null) return 'revoked'
  return record.expiresAt !== null && Date.parse(record.expiresAt) <= nowMs ? 'expired' : 'valid'
}

function revoke(call: CommandCall): ExitCode {
  const id = call.positionals[0]!
  const dataDir = dataDirOf(call)
  const isLive = listTokens(dataDir).some((one) => one.id === id && one.revokedAt === null)
  const record = isLive
    ? recordAct(
        dataDir,
        () => revokeToken(dataDir, id, new SystemClock()),
        (revoked) => (revoked === undefined ? null : actOf('ACTIVITY_ACTION_TOKEN_REVOKE', 'Revoked', revoked)),
      )
    : revokeToken(dataDir, id, new SystemClock())
  if (record === undefined) throw new CacheError('NOT_FOUND', `${dataDir} has no token ${id}; see kvtier token list`)
  answer(call, { id, revoked_at: record.revokedAt }, () => `Revoked ${id}.`)
  return 0
}
