/** Marks a number or string as one kind of identity, so that two kinds do not mix. Costs nothing at run time. */
export type Brand<Base, Name extends string> = Base & { readonly __brand: Name }

/**
 * A (model_name, cache_salt) pair as a row number of every per-tenant counter table, 0 upwards.
 * Pairs past the cardinality limit share the row of salt `__other__` of no particular model.
 */
export type TenantId = Brand<number, 'TenantId'>

/** A key space of L1: (model_name, cache_salt, world size) with its shard length. See `l1/key-spaces.ts`. */
export type SpaceId = Brand<number, 'SpaceId'>

/** A timed right to read or write slots: slot of the lease table in the low bits, generation above. 0 is none. */
export type LeaseId = Brand<number, 'LeaseId'>
export const NO_LEASE = 0 as LeaseId

/** Longest cache salt, in UTF-16 code units, and what it may not contain (spec/mp-wire.md, "Keys"). */
export const SALT_LENGTH_MAX = 128
export const SALT_FORBIDDEN = /[@/\\\0]/
/** Longest model name, in UTF-16 code units. */
export const MODEL_LENGTH_MAX = 256
