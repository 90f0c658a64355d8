import { type Activity, type ActivityDraft, METADATA_LENGTH_MAX, OCCURRED_MS_MAX, TEXT_LENGTH_MAX } from './activity.ts'

/** A record as it will be kept, of what a caller tells. `nowMs`: milliseconds since 1970. */
export function newActivity(draft: ActivityDraft, activityId: string, nowMs: number): Activity {
  const recordedMs = timeOf(nowMs)
  const { actor } = draft
  return {
    activityId,
    actorType: actor.type,
    userId: cut(actor.userId),
    action: draft.action,
    resourceType: draft.resourceType,
    resourceId: cut(draft.resourceId),
    description: cut(draft.description),
    metadata: bounded(draft.metadata ?? {}),
    occurredAt: new Date(timeOf(draft.occurredAtMs ?? nowMs)).toISOString(),
    recordedAt: new Date(recordedMs).toISOString(),
    actorId: cut(actor.id),
    actorDisplay: cut(actor.display),
  }
}

function timeOf(ms: number): number {
  return Math.min(Math.max(0, Math.floor(ms)), OCCURRED_MS_MAX)
}

// SQLite holds UTF-8: lone surrogates are replaced here, so that what is returned is what was written.
// A NUL would end the text in SQLite's own functions.
function cut(text: string): string {
  const short = text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX - 3)}...` : text
  return short.toWellFormed().replaceAll('\0', '\ufffd')
}

// As JSON has it: what is returned by the writer is what a reader gets.
function bounded(metadata: Readonly<Record<string, unknown>>): Activity['metadata'] {
  const text = JSON.stringify(metadata)
  if (text.length > METADATA_LENGTH_MAX) return { droppedLength: text.length }
  return JSON.parse(text) as Activity['metadata']
}
