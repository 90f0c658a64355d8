declare module 'vitest' {
  interface TaskMeta {
    /** Why this machine cannot run the test. */
    skipReason?: string
  }
}

/**
 * Options of a `describe` or `it` that can run only where something is there; the reason is shown by the report.
 * Inside a test, `context.skip(condition, reason)` does the same.
 */
export function skipUnless(isThere: boolean, reason: string): { skip: boolean; meta: { skipReason?: string } } {
  return { skip: !isThere, meta: isThere ? {} : { skipReason: reason } }
}
