import { randomUUID } from 'node:crypto'
import { hostname, userInfo } from 'node:os'
import { join } from 'node:path'
import type { ActivityDraft, Actor } from '../activities/activity.ts'
import { ActivityStore } from '../activities/activity-store.ts'
import { ACTIVITY_FILE } from '../activities/options.ts'
import { SystemClock } from '../core/clock.ts'

/**
 * Does something to a data directory and writes it to the activity log there, whether or not an engine runs on it. The
 * log is opened first: what could not be recorded is not done.
 *
 * @param describe the record of what was done; null = nothing was done.
 * @throws CacheError DATA_DIR_UNWRITABLE, ACTIVITY_LOG_FAILED
 */
export function recordAct<T>(
  dataDir: string,
  act: () => T,
  describe: (done: T) => Omit<ActivityDraft, 'actor'> | null,
): T {
  const store = new ActivityStore({ path: join(dataDir, ACTIVITY_FILE), clock: new SystemClock(), newId: randomUUID })
  try {
    const done = act()
    const draft = describe(done)
    if (draft !== null) store.write({ ...draft, actor: operator() })
    return done
  } finally {
    store.close()
  }
}

function operator(): Actor {
  const name = userName()
  return { type: 'ACTOR_TYPE_OPERATOR', id: name, userId: name, display: `${name}@${hostname()}` }
}

// A container may run under a user id that has no name.
function userName(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? '')
  }
}
