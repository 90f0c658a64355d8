import { MEMORY_DEFAULT, type MemoryAdapterOptions } from '../../l2/options.ts'
import type { BackendSyntax } from './adapter-entry.ts'
import { capacityField } from './capacity-field.ts'

/** `type=memory`: objects in the memory of the engine, lost at a restart. */
export const memorySyntax: BackendSyntax<MemoryAdapterOptions, 'keepBytes'> = {
  fields: { capacityBytes: capacityField },
  fixed: { keepBytes: MEMORY_DEFAULT.keepBytes },
  required: { capacity: '10GiB' },
}
