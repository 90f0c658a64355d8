import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { RECORDING_EDITS, withoutRecording } from '../../bench/support/build-without-recording.ts'
import { REPOSITORY } from '../support/source-tree.ts'

it.each([...new Set(RECORDING_EDITS.map(({ file }) => file))])('recording can be taken out of %s', (file) => {
  const source = readFileSync(join(REPOSITORY, 'src', file), 'utf8')
  expect(withoutRecording(file, source)).not.toBe(source)
})
