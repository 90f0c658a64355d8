import { resolve } from 'node:path'
import { FILESYSTEM_DEFAULT, type FilesystemAdapterOptions } from '../../l2/options.ts'
import { integer, oneOf, text } from '../fields.ts'
import type { BackendSyntax } from './adapter-entry.ts'
import { capacityField } from './capacity-field.ts'

/** `type=filesystem`: objects as files of one directory. */
export const filesystemSyntax: BackendSyntax<FilesystemAdapterOptions> = {
  fields: {
    capacityBytes: capacityField,
    directory: text('path', '', 'Directory of the objects. Default: l2/NAME in the data directory.'),
    durability: oneOf(
      'durability',
      ['fsync', 'checksum'],
      FILESYSTEM_DEFAULT.durability,
      'When an object counts as stored.',
    ),
    parallelism: integer(
      'parallelism',
      FILESYSTEM_DEFAULT.parallelism,
      { minimum: 1, maximum: 256 },
      'Objects written at a time, and objects read.',
    ),
    direct: oneOf(
      'direct',
      ['auto', 'off'],
      FILESYSTEM_DEFAULT.direct,
      'Whether objects of whole pages bypass the page cache.',
    ),
    quarantineFiles: integer(
      'quarantine-files',
      FILESYSTEM_DEFAULT.quarantineFiles,
      { minimum: 0, maximum: 65_536 },
      'Corrupt records kept for a look.',
    ),
  },
  fixed: {},
  required: { capacity: '10GiB' },
  finish: (options, name, { machine, value }) => {
    const { directory } = options
    const isGiven = directory !== ''
    const base = isGiven ? machine.workingDirectory : value<string>('--data-dir')
    return { ...options, directory: isGiven ? resolve(base, directory) : resolve(base, 'l2', name) }
  },
  exclusive: ({ directory }) => `the path ${directory}`,
}
