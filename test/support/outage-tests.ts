import { it } from 'vitest'
import { DRILL_SHARD_BYTES, type OutageDrill } from './outage-drill.ts'
import type { TcpProxy } from './tcp-proxy.ts'

/** A way for a server to be of no use, and its end. */
export interface Outage {
  begin(): unknown
  end(): unknown
}

/** What a drill of one test runs through. */
export interface OutageScene {
  readonly drill: OutageDrill
  readonly proxy: TcpProxy
}

export interface OutageTests {
  /** Continues "traffic goes on while". */
  readonly who: string
  /** The scene of the test that runs. */
  readonly scene: () => OutageScene
  /** Outages of the server itself, by name; those of the network before it are the same for all. */
  readonly outages: Readonly<Record<string, Outage>>
  /** Which way bytes are cut off in the middle of objects. */
  readonly cuts: readonly ('toClient' | 'toServer')[]
}

/** The drills that every adapter of a server behind a network must pass: one test an outage, and one of cut objects. */
export function outageTests({ who, scene, outages, cuts }: OutageTests): void {
  const all: Readonly<Record<string, Outage>> = { ...outages, ...networkOutages(() => scene().proxy) }

  it.each(Object.keys(all))(`traffic goes on while ${who} %s, and it is used again afterwards`, async (name) => {
    const { begin, end } = all[name]!
    const { drill } = scene()
    await drill.warms()
    await begin()
    await drill.traffic(60)
    await end()
    await drill.recovers()
    await drill.rests()
  })

  it(`traffic goes on while connections to ${who} are reset in the middle of objects`, async () => {
    const { drill, proxy } = scene()
    for (let turn = 0; turn < 20; turn += 1) {
      proxy.cutAfter(DRILL_SHARD_BYTES / 2, cuts[turn % cuts.length]!)
      await drill.traffic(8)
    }
    await drill.recovers()
    await drill.rests()
  })
}

function networkOutages(proxy: () => TcpProxy): Record<string, Outage> {
  return {
    'is behind a network that swallows everything': {
      begin: () => proxy().blackhole(),
      end: () => proxy().heal(),
    },
    'refuses connections, and resets those that are open': {
      begin: () => {
        proxy().isRefusing = true
        proxy().cut()
      },
      end: () => {
        proxy().isRefusing = false
      },
    },
    'is behind a slow network': {
      begin: () => {
        proxy().throttleBytesPerSecond = DRILL_SHARD_BYTES / 2
      },
      end: () => {
        proxy().throttleBytesPerSecond = 0
      },
    },
  }
}
