/** The greatest significand that the official library reads digit by digit; it drops the digits that follow. */
const SIGNIFICAND_MAX = 2n ** 64n - 1n

/**
 * A number of a JSON text as the official library reads it: not the nearest double, but its digits as a double, times
 * or through a power of ten, each rounded. The last bit decides between ways of one score.
 */
export function officialNumber(source: string): number {
  const parts = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source)
  if (parts === null) return Number(source)
  const [, sign, whole = '', fraction = '', exponentText = '0'] = parts
  let significand = 0n
  let exponent = Number(exponentText)
  let isFull = false
  for (const [at, digit] of [...(whole + fraction)].entries()) {
    const isFraction = at >= whole.length
    const longer = significand * 10n + BigInt(digit)
    isFull ||= longer > SIGNIFICAND_MAX
    if (!isFull) significand = longer
    if (isFull && !isFraction) exponent += 1
    if (!isFull && isFraction) exponent -= 1
  }
  const digits = Number(significand)
  const power = Number(`1e${Math.abs(exponent)}`)
  const value = exponent >= 0 ? digits * power : digits / power
  return sign === '-' ? -value : value
}
