import { Type } from 'typebox'
import { isAdapterName } from '../../../l2/options.ts'
import { type Api, type ApiParts, recordAct } from '../api.ts'
import { badRequest, Count, errorAnswers, NoQuery } from '../schemas.ts'
import type { AdapterInfo } from '../storage-port.ts'
import { Job, jobOf, RateBytes } from './job-routes.ts'

/** A drain without a deadline of its own gets this one; none may be longer than the second. */
const DRAIN_DEADLINE_MS = 10 * 60_000
const DRAIN_DEADLINE_MAX_MS = 7 * 24 * 3_600_000
/** Objects of one answer at most, and when the request says nothing. */
const OBJECTS_MAX = 1000
const OBJECTS_DEFAULT = 100

const Name = Type.String({ minLength: 1, maxLength: 64, description: 'Name of the adapter: its l2_name.' })
const Params = Type.Object({ name: Type.String({ maxLength: 128 }) })

const Adapter = Type.Object({
  name: Type.String(),
  type: Type.String(),
  state: Type.String({ description: 'active, draining or failed' }),
  origin: Type.String({
    description: 'config: comes back at the next start. runtime: added while the engine ran, kept until it is removed.',
  }),
  is_kept: Type.Boolean({
    description: 'The next start attaches it. Not so under the name of another one in the configuration, which wins.',
  }),
  options: Type.Object({}, { additionalProperties: true, description: 'Without secrets.' }),
  usage_bytes: Count,
  capacity_bytes: Type.Integer({ minimum: 0, format: 'int64', description: '0 = no limit.' }),
  objects: Count,
  evicted_objects: Count,
  checksum_failures: Count,
  inflight_stores: Count,
  inflight_store_bytes: Count,
  inflight_loads: Count,
  inflight_load_bytes: Count,
  inflight_leases: Type.Integer({ minimum: 0, description: 'Leases of L1 that batches of this adapter hold.' }),
  abandoned: Type.Integer({ minimum: 0, description: 'Batches given up at their deadline that may still use memory.' }),
  circuit: Type.String({ description: 'closed, half_open or open' }),
  last_error: Type.String({ description: 'Empty when it never failed.' }),
  drain: Type.Union([
    Type.Object({
      phase: Type.String({
        description: 'waiting; drained: it can be removed; deadline_passed: the numbers in flight say what is left',
      }),
      elapsed_ms: Type.Integer(),
      remaining_ms: Type.Integer(),
      bytes_left: Type.Integer({ minimum: 0, format: 'int64', description: 'Of its evacuation; 0 without one.' }),
    }),
    Type.Null(),
  ]),
  evacuation: Type.Union([Job, Type.Null()]),
})
const AddBody = Type.Object(
  { name: Name, type: Type.String({ maxLength: 64, description: 'filesystem, memory, ...' }) },
  {
    additionalProperties: true,
    description: 'The options of an adapter, as in the config file: kvtier print options tells them.',
  },
)
const DrainBody = Type.Object(
  {
    deadline_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: DRAIN_DEADLINE_MAX_MS,
        description: `When to stop waiting and say what is left. Default: ${DRAIN_DEADLINE_MS}.`,
      }),
    ),
    evacuate_to: Type.Optional(Name),
    rate_bytes: Type.Optional(RateBytes),
  },
  { additionalProperties: false },
)
const ForceQuery = Type.Object(
  { force: Type.Optional(Type.Boolean({ description: 'End what is in flight instead of refusing.' })) },
  { additionalProperties: false },
)
const Removed = Type.Object({
  name: Type.String(),
  state: Type.Literal('removed'),
  left: Type.Object({
    stores: Count,
    store_bytes: Count,
    loads: Count,
    load_bytes: Count,
    others: Count,
    abandoned: Count,
  }),
  is_closed: Type.Boolean({ description: 'False: the backend did not close in time and was left to itself.' }),
  close_error: Type.String(),
  returns_at_start: Type.Boolean({ description: 'It is in the configuration: the next start attaches it again.' }),
})
const ObjectsQuery = Type.Object(
  {
    cursor: Type.Optional(Type.String({ maxLength: 4096, description: 'Of the page before.' })),
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: OBJECTS_MAX, description: `Default: ${OBJECTS_DEFAULT}.` }),
    ),
  },
  { additionalProperties: false },
)
const Objects = Type.Object({
  objects: Type.Array(
    Type.Object({
      model: Type.String(),
      cache_salt: Type.String(),
      ranks: Type.Integer(),
      rank: Type.Integer(),
      bytes: Count,
      hash: Type.String(),
      parent: Type.String({ description: 'All zeros for a first chunk.' }),
    }),
  ),
  cursor: Type.Union([Type.String(), Type.Null()], { description: 'Of the next page; null after the last.' }),
})

/** The life of L2 adapters. */
export function storageRoutes(api: Api, parts: ApiParts): void {
  addReads(api, parts)
  addAdd(api, parts)
  addDrain(api, parts)
  addRemove(api, parts)
}

function addReads(api: Api, { storage }: ApiParts): void {
  const list = {
    summary: 'L2 adapters, in the order they are asked',
    querystring: NoQuery,
    response: { 200: Type.Object({ adapters: Type.Array(Adapter) }), ...errorAnswers },
  }
  api.get('/v1/l2/adapters', { schema: list, config: { scope: 'read' } }, async () => {
    return { adapters: (await storage.adapters()).map(adapterOf) }
  })

  const one = {
    summary: 'One L2 adapter, and how far its drain is',
    params: Params,
    querystring: NoQuery,
    response: { 200: Adapter, ...errorAnswers },
  }
  api.get('/v1/l2/adapters/:name', { schema: one, config: { scope: 'read' } }, async (request) => {
    return adapterOf(await storage.adapter(request.params.name))
  })

  const objects = {
    summary: 'Objects of an L2 adapter',
    description: 'A page at a time, in an order of its own. Not every type of adapter can tell.',
    params: Params,
    querystring: ObjectsQuery,
    response: { 200: Objects, ...errorAnswers },
  }
  api.get('/v1/l2/adapters/:name/objects', { schema: objects, config: { scope: 'admin' } }, async (request) => {
    const { cursor = '', limit = OBJECTS_DEFAULT } = request.query
    const page = await storage.objects(request.params.name, cursor, limit)
    const shown = page.objects.map(({ salt, ...rest }) => ({ ...rest, cache_salt: salt }))
    return { objects: shown, cursor: page.cursor }
  })
}

function addAdd(api: Api, parts: ApiParts): void {
  const schema = {
    summary: 'Attach an L2 adapter',
    description:
      'It is asked last. It is kept in the data directory and comes back at the next start, until it is removed.',
    querystring: NoQuery,
    body: AddBody,
    response: { 201: Adapter, ...errorAnswers },
  }
  api.post('/v1/l2/adapters', { schema, config: { scope: 'admin' } }, async (request, reply) => {
    if (!isAdapterName(request.body.name)) {
      throw badRequest('name', 'an adapter name has 1 to 64 letters, digits, ".", "_" or "-"')
    }
    const info = await parts.storage.addAdapter(request.body)
    await recordAct(parts, request, {
      action: 'ACTIVITY_ACTION_ADAPTER_ADD',
      resourceType: 'adapter',
      resourceId: info.name,
      description: `Attached the ${info.type} adapter ${info.name}.`,
      metadata: { type: info.type, options: info.options },
    })
    return reply.code(201).send(adapterOf(info))
  })
}

function addDrain(api: Api, parts: ApiParts): void {
  const drain = {
    summary: 'Stop giving new work to an L2 adapter',
    description:
      'Answers at once; GET of the adapter tells how far it is. It gets no stores and no lookups any more; what was ' +
      'promised is served. With evacuate_to its objects are copied to another adapter meanwhile. A further call ' +
      'sets another deadline.',
    params: Params,
    querystring: NoQuery,
    body: DrainBody,
    response: { 202: Adapter, ...errorAnswers },
  }
  api.post('/v1/l2/adapters/:name/drain', { schema: drain, config: { scope: 'admin' } }, async (request, reply) => {
    const { deadline_ms: deadlineMs = DRAIN_DEADLINE_MS, evacuate_to: evacuateTo, rate_bytes: rate } = request.body
    if (rate !== undefined && evacuateTo === undefined) throw badRequest('rate_bytes', 'rate_bytes needs evacuate_to')
    const how = {
      deadlineMs,
      ...(evacuateTo === undefined ? {} : { evacuateTo }),
      ...(rate === undefined ? {} : { rateBytes: rate }),
    }
    const info = await parts.storage.drainAdapter(request.params.name, how)
    await recordAct(parts, request, {
      action: 'ACTIVITY_ACTION_ADAPTER_DRAIN',
      resourceType: 'adapter',
      resourceId: info.name,
      description: `The adapter ${info.name} drains${evacuateTo === undefined ? '' : ` to ${evacuateTo}`}.`,
      metadata: { ...how, objects: info.objects, usageBytes: info.usageBytes },
    })
    return reply.code(202).send(adapterOf(info))
  })

  const undrain = {
    summary: 'Give work to a draining L2 adapter again',
    description: 'Ends an evacuation of its objects; what was copied stays copied.',
    params: Params,
    querystring: NoQuery,
    response: { 200: Adapter, ...errorAnswers },
  }
  api.post('/v1/l2/adapters/:name/undrain', { schema: undrain, config: { scope: 'admin' } }, async (request) => {
    const info = await parts.storage.undrainAdapter(request.params.name)
    await recordAct(parts, request, {
      action: 'ACTIVITY_ACTION_ADAPTER_UNDRAIN',
      resourceType: 'adapter',
      resourceId: info.name,
      description: `The adapter ${info.name} is active again.`,
    })
    return adapterOf(info)
  })
}

function addRemove(api: Api, parts: ApiParts): void {
  const schema = {
    summary: 'Detach an L2 adapter',
    description:
      'Its objects stay where they are. Refused while it is active or has work in flight, unless forced: then that ' +
      'work is ended and the answer says what it was.',
    params: Params,
    querystring: ForceQuery,
    response: { 200: Removed, ...errorAnswers },
  }
  api.delete('/v1/l2/adapters/:name', { schema, config: { scope: 'admin' } }, async (request) => {
    const { name } = request.params
    const isForced = request.query.force === true
    const { left, isClosed, error, returnsAtStart } = await parts.storage.removeAdapter(name, isForced)
    await recordAct(parts, request, {
      action: isForced ? 'ACTIVITY_ACTION_ADAPTER_FORCE' : 'ACTIVITY_ACTION_ADAPTER_REMOVE',
      resourceType: 'adapter',
      resourceId: name,
      description: `Detached the adapter ${name}${isForced ? ' by force' : ''}.`,
      metadata: { left, isClosed, closeError: error, returnsAtStart },
    })
    const { storeBytes: store_bytes, loadBytes: load_bytes, ...rest } = left
    return {
      name,
      state: 'removed' as const,
      left: { ...rest, store_bytes, load_bytes },
      is_closed: isClosed,
      close_error: error,
      returns_at_start: returnsAtStart,
    }
  })
}

function adapterOf(info: AdapterInfo) {
  const { drain, evacuation } = info
  return {
    name: info.name,
    type: info.type,
    state: info.state,
    origin: info.origin,
    is_kept: info.isKept,
    options: info.options,
    usage_bytes: info.usageBytes,
    capacity_bytes: info.capacityBytes,
    objects: info.objects,
    evicted_objects: info.evictedObjects,
    checksum_failures: info.checksumFailures,
    inflight_stores: info.inflightStores,
    inflight_store_bytes: info.inflightStoreBytes,
    inflight_loads: info.inflightLoads,
    inflight_load_bytes: info.inflightLoadBytes,
    inflight_leases: info.inflightStores + info.inflightLoads + info.abandoned, // each batch holds one
    abandoned: info.abandoned,
    circuit: info.circuit,
    last_error: info.lastError,
    drain:
      drain === null
        ? null
        : {
            phase: drain.phase,
            elapsed_ms: Math.round(drain.elapsedMs),
            remaining_ms: Math.round(drain.remainingMs),
            bytes_left: evacuation?.bytesLeft ?? 0,
          },
    evacuation: evacuation === null ? null : jobOf(evacuation),
  }
}
