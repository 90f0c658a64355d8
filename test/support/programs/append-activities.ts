// Appends to the activity log in argv[2] until killed; prints the id of each record once it is acknowledged.
import { writeSync } from 'node:fs'
import { SYSTEM_ACTOR } from '../../../src/activities/activity.ts'
import { ActivityStore } from '../../../src/activities/activity-store.ts'
import { SystemClock } from '../../../src/core/clock.ts'

const store = new ActivityStore({ path: process.argv[2]!, clock: new SystemClock(), newId: () => crypto.randomUUID() })
for (;;) {
  const { activityId } = store.write({
    actor: SYSTEM_ACTOR,
    action: 'ACTIVITY_ACTION_CACHE_CLEAR',
    resourceType: 'cache',
    resourceId: 'model',
    description: 'Cleared.',
  })
  writeSync(1, `${activityId}\n`)
}
