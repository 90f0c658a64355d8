/** One side of a comparison. `run` does the same work each time and returns how many units it did. */
export interface Side {
  readonly name: string
  readonly run: () => number | Promise<number>
}

/** What one side took per unit over all its runs. Nanoseconds; CPU time counts every thread of the process. */
export interface SideResult {
  readonly name: string
  readonly medianNs: number
  readonly minNs: number
  readonly maxNs: number
  readonly cpuMedianNs: number
}

export interface PairsResult {
  readonly a: SideResult
  readonly b: SideResult
  readonly pairs: number
  /** Median over the pairs of (time of a / time of b): above 1, b is faster. Of one pair each, so drift cancels. */
  readonly ratio: number
  readonly ratioMin: number
  readonly ratioMax: number
}

interface Sample {
  readonly wallNs: number
  readonly cpuNs: number
}

/**
 * Runs two sides in turn, a b, b a, a b, ..., so that what the machine does meanwhile hits both alike.
 *
 * @param pairs pairs that count; fewer than 15 make a poor median.
 * @param warmups pairs before those, not counted.
 */
export async function runPairs(a: Side, b: Side, { pairs = 15, warmups = 2 } = {}): Promise<PairsResult> {
  const samples: [Sample, Sample][] = []
  for (let pair = -warmups; pair < pairs; pair += 1) {
    const isSwapped = pair % 2 !== 0
    const first = await sample(isSwapped ? b : a)
    const second = await sample(isSwapped ? a : b)
    if (pair >= 0) samples.push(isSwapped ? [second, first] : [first, second])
  }
  const ratios = samples.map(([one, other]) => one.wallNs / other.wallNs)
  return {
    a: summarise(
      a.name,
      samples.map(([one]) => one),
    ),
    b: summarise(
      b.name,
      samples.map(([, other]) => other),
    ),
    pairs,
    ratio: median(ratios),
    ratioMin: Math.min(...ratios),
    ratioMax: Math.max(...ratios),
  }
}

/** The middle value; of an even number, the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** Three lines: each side, and the ratio of a to b. */
export function formatPairs({ a, b, pairs, ratio, ratioMin, ratioMax }: PairsResult): string {
  const width = Math.max(a.name.length, b.name.length)
  const row = (side: SideResult): string =>
    `${side.name.padEnd(width)}  ${formatNs(side.medianNs)} median, ${formatNs(side.minNs)} to ` +
    `${formatNs(side.maxNs)}, CPU ${formatNs(side.cpuMedianNs)}`
  const spread = `${ratioMin.toFixed(2)} to ${ratioMax.toFixed(2)}`
  return `${row(a)}\n${row(b)}\n${a.name} / ${b.name} = ${ratio.toFixed(2)} (${spread}, ${pairs} pairs)`
}

/** `3.2 ns`, `41 us`, `1.7 ms`. */
export function formatNs(ns: number): string {
  const [divisor, unit] = ns < 1e3 ? [1, 'ns'] : ns < 1e6 ? [1e3, 'us'] : ns < 1e9 ? [1e6, 'ms'] : [1e9, 's']
  return `${Number((ns / Number(divisor)).toPrecision(3))} ${unit}`
}

async function sample(side: Side): Promise<Sample> {
  const cpuBefore = process.cpuUsage()
  const before = process.hrtime.bigint()
  const units = await side.run()
  const wallNs = Number(process.hrtime.bigint() - before)
  const cpu = process.cpuUsage(cpuBefore)
  return { wallNs: wallNs / units, cpuNs: ((cpu.user + cpu.system) * 1000) / units }
}

function summarise(name: string, samples: readonly Sample[]): SideResult {
  const wall = samples.map(({ wallNs }) => wallNs)
  return {
    name,
    medianNs: median(wall),
    minNs: Math.min(...wall),
    maxNs: Math.max(...wall),
    cpuMedianNs: median(samples.map(({ cpuNs }) => cpuNs)),
  }
}
