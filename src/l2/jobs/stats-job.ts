import { type JobContext, NAMED_MAX, type SpaceCount } from './job.ts'
import { ObjectWalk } from './object-walk.ts'

/** Name of the row for all spaces past the first `NAMED_MAX`. */
const OTHERS = '__other__'

/** Counts the objects of an adapter by model, salt and world size. */
export async function statsJob(context: JobContext): Promise<void> {
  const { counts, spaces } = context
  const walk = new ObjectWalk({ ...context, batchBytes: Number.POSITIVE_INFINITY })
  await walk.run(async ({ count, space: { model, salt, ranks, shardBytes } }) => {
    const space = rowOf(spaces, { model, salt, ranks, shardBytes, objects: 0, bytes: 0 })
    space.objects += count
    space.bytes += count * shardBytes
    counts.objects += count
    counts.ok += count
  })
}

function rowOf(spaces: Map<string, SpaceCount>, space: SpaceCount): SpaceCount {
  const { model, salt, ranks, shardBytes } = space
  const key = JSON.stringify([model, salt, ranks, shardBytes])
  const known = spaces.get(key) ?? (spaces.size < NAMED_MAX ? undefined : spaces.get(OTHERS))
  if (known !== undefined) return known
  const isNamed = spaces.size < NAMED_MAX
  const row = isNamed ? space : { ...space, model: OTHERS, salt: OTHERS, ranks: 0, shardBytes: 0 }
  spaces.set(isNamed ? key : OTHERS, row)
  return row
}
