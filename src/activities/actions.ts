// Our enumerations of the activity log. The interface document names only the `*_UNSPECIFIED` values; the others are
// ours. A value, once released, keeps its meaning: records are kept for years.

/** Who acted. */
export const ACTOR_TYPES = {
  ACTOR_TYPE_UNSPECIFIED: 'Not known.',
  ACTOR_TYPE_TOKEN: 'The holder of an access token; actorId is the id of the token.',
  ACTOR_TYPE_OPERATOR: 'A person or script at the command line of this machine.',
  ACTOR_TYPE_CLIENT: 'A client of the MP wire, which has no names.',
  ACTOR_TYPE_SYSTEM: 'The engine itself.',
} as const

/** What was done. */
export const ACTIONS = {
  ACTIVITY_ACTION_UNSPECIFIED: 'Not known.',
  ACTIVITY_ACTION_ENGINE_START: 'The engine started and listens.',
  ACTIVITY_ACTION_ENGINE_STOP: 'The engine stopped in order.',
  ACTIVITY_ACTION_ENGINE_RECOVER: 'The engine found that it had not stopped in order, and recovered.',
  ACTIVITY_ACTION_CONFIG_RELOAD:
    'A file of tokens or certificates has changed and was read again; metadata.option names it.',
  ACTIVITY_ACTION_CACHE_CLEAR: 'Chunks were removed on request.',
  ACTIVITY_ACTION_MODEL_REGISTER: 'A model was registered with its layout.',
  ACTIVITY_ACTION_PIN_CREATE: 'The chunks of a prompt were pinned in L1.',
  ACTIVITY_ACTION_PIN_DELETE: 'A pin was removed.',
  ACTIVITY_ACTION_QUOTA_SET: 'The quota of a cache salt was set.',
  ACTIVITY_ACTION_QUOTA_DELETE: 'A cache salt got the default quota again.',
  ACTIVITY_ACTION_ADAPTER_ADD: 'An L2 adapter was added.',
  ACTIVITY_ACTION_ADAPTER_DRAIN: 'An L2 adapter began to drain.',
  ACTIVITY_ACTION_ADAPTER_DRAIN_END: 'A drain ended: nothing was in flight any more, or its deadline had passed.',
  ACTIVITY_ACTION_ADAPTER_UNDRAIN: 'A draining L2 adapter was made active again.',
  ACTIVITY_ACTION_ADAPTER_REMOVE: 'An L2 adapter was removed.',
  ACTIVITY_ACTION_ADAPTER_FORCE: 'An L2 adapter was removed with work left.',
  ACTIVITY_ACTION_ADAPTER_FAIL: 'An L2 adapter failed and is not used any more.',
  ACTIVITY_ACTION_ADAPTER_JOB_START: 'A verification, count or evacuation of all objects of an L2 adapter was started.',
  ACTIVITY_ACTION_ADAPTER_JOB_CANCEL: 'A job over all objects of an L2 adapter was ended.',
  ACTIVITY_ACTION_ADAPTER_JOB_END: 'A job over all objects of an L2 adapter came to its end.',
  ACTIVITY_ACTION_DEVICE_LEND: 'The GPU memory of L0 was opened to an inference process.',
  ACTIVITY_ACTION_TOKEN_CREATE: 'A token was created.',
  ACTIVITY_ACTION_TOKEN_REVOKE: 'A token was revoked.',
  ACTIVITY_ACTION_QUARANTINE: 'Slots or objects were set aside because they may not be trusted.',
  ACTIVITY_ACTION_QUARANTINE_RELEASE: 'Slots that were kept for a worker that did not answer were given free.',
} as const

/** What was acted on. */
export const RESOURCE_TYPES = {
  engine: 'This process; resourceId is its name or empty.',
  cache: 'Cached chunks; resourceId is the model, or empty for all.',
  model: 'A registered model; resourceId is its name.',
  pin: 'A pin; resourceId is its id.',
  adapter: 'An L2 adapter; resourceId is its name.',
  token: 'An access token; resourceId is its id.',
  worker: 'A worker of an inference server; resourceId is its instance id.',
  device: 'The GPU memory of L0; resourceId is the model whose blocks it holds.',
  tenant: 'A tenant; resourceId is its cache salt.',
} as const

export type ActorType = keyof typeof ACTOR_TYPES
export type Action = keyof typeof ACTIONS
export type ResourceType = keyof typeof RESOURCE_TYPES
