import { cell, counter, split, TENANT } from './define.ts'

/** Lookups and the hit rate. */
export const LOOKUP_METRICS = [
  counter('lookup_requested_tokens_total', {
    help: 'Tokens asked to look up, in whole chunks: the denominator of the hit rate.',
    labels: TENANT,
    from: [cell('engineTenants', 'requestedTokens', { visibleWith: ['lookups'] })],
  }),
  counter('lookup_hit_tokens_total', {
    help: 'Tokens of the leading run of chunks found in any tier: the numerator of the hit rate.',
    labels: TENANT,
    from: [cell('engineTenants', 'hitTokens', { visibleWith: ['lookups'] })],
  }),
  counter('num_chunks_loaded_total', {
    help: 'Chunks delivered back into service, to the buffers of a client or to L0.',
    labels: TENANT,
    from: [cell('engineTenants', 'loadedShards')],
  }),
  counter('lookups_total', {
    help: 'Lookups whose answer is final.',
    labels: TENANT,
    extension: true,
    from: [cell('engineTenants', 'lookups')],
  }),
  counter('lookup_hit_tier_tokens_total', {
    help: 'Tokens found in cache, by the tier that held them.',
    labels: [...TENANT, 'tier'],
    extension: true,
    from: split(
      'engineTenants',
      'tier',
      { l0: 'hitTokensL0', l1: 'hitTokensL1', l2: 'hitTokensL2' },
      { visibleWith: ['lookups'] },
    ),
  }),
] as const
