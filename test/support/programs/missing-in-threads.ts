import { registerHooks } from 'node:module'
import { isMainThread } from 'node:worker_threads'

// Preloaded into an engine: a package is missing in every thread but the first, as in an installation that was copied
// in part.
const missing = process.env.MISSING_IN_THREADS

if (!isMainThread) {
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier === missing) throw new Error(`Cannot find package '${specifier}'`)
      return next(specifier, context)
    },
  })
}
