// Builds the native addon: `npm run build:addon`, and the end of every install. An engine without it runs in JavaScript,
// so nothing that goes wrong here fails an install, unless KVTIER_REQUIRE_NATIVE=1 asks for it. Nothing is downloaded.
import { join } from 'node:path'
import { buildAddon } from '../src/native/addon-build.ts'

const { CXX, KVTIER_REQUIRE_NATIVE } = process.env
const compilers = CXX === undefined || CXX === '' ? ['g++', 'clang++', 'c++'] : [CXX]
const built = await buildAddon({ root: join(import.meta.dirname, '..'), compilers, env: process.env })
if ('reason' in built) {
  console.error(`kvtier: native addon not built: ${built.reason}. The engine runs without it.`)
  if (KVTIER_REQUIRE_NATIVE === '1') process.exitCode = 1
} else if (built.isNew) {
  console.error('kvtier: native addon built')
}
