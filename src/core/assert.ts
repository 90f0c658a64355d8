/** Thrown by `assert`: a bug in kvtier, never an operating condition. */
export class AssertionError extends Error {
  override readonly name = 'AssertionError'
}

/** Stops on a broken invariant. Texts are constants, so that a passing assert allocates nothing. */
export function assert(condition: boolean, text: string): asserts condition {
  if (!condition) throw new AssertionError(text)
}
