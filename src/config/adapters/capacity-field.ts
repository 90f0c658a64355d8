import { bytes } from '../fields.ts'

const MIB = 1024 ** 2

/** For backends with a capacity of their own. Must be given: `required: { capacity: '10GiB' }`. */
export const capacityField = bytes('capacity', '10GiB', 'Bytes of objects at most.', MIB)
