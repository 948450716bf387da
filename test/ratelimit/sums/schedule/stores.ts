/** The servers of a schedule with all that can happen to them, and what outlives all disks. */

import { type ExactInt, maxExact } from '../../../../src/formats/exact.ts'
import type { LongSums } from '../../../../src/ratelimit/sums/sum-store.ts'
import { type Life, Link, Server } from '../model.ts'
import type { World } from './world.ts'

export type Stores = ReturnType<typeof createStores>

export function createStores(world: World) {
  const { kind, dice, tags, note } = world
  // The servers: one for each half of the tags, each perhaps split in two.
  let redisAhead = 0
  const redisNow = (): number => world.now + redisAhead
  type Shard = readonly [server: Server, other: Server | undefined]
  const shards: Shard[] = tags.slice(0, tags.length === 1 ? 1 : 2).map(() => {
    return [new Server(redisNow), undefined]
  })
  const moved = new Map<string, number>()
  const copies: Server[][] = shards.map(() => [])
  const links: Link[] = []

  function shardOf(key: string): number {
    const tag = /\{(\w+)\}/.exec(key)?.[1] ?? 'all'
    return tags.length === 1 ? 0 : (moved.get(tag) ?? Number(tag) % 2)
  }

  function connect(life: Life): Link {
    const side = dice.below(2)
    const link = new Link(
      (key) => {
        const [one, other] = shards[shardOf(key)] as Shard
        return side === 1 && other !== undefined ? other : one
      },
      dice,
      life,
    )
    links.push(link)
    return link
  }

  // What outlives all disks.
  const rows = new Map<string, Map<string, ExactInt>>()
  let isDatabaseDown = false
  const longSums: LongSums = {
    async load(ids) {
      if (isDatabaseDown) throw new Error('down')
      return ids.map((id) => rows.get(id) ?? new Map())
    },
    async save(gateway, sums) {
      if (isDatabaseDown) throw new Error('down')
      for (const { id, used } of sums) {
        const row = rows.get(id) ?? new Map<string, ExactInt>()
        rows.set(id, row.set(gateway, maxExact(row.get(gateway) ?? 0, used)))
      }
    },
  }

  function faultOfStore(): void {
    const shard = dice.below(shards.length)
    const [server, other] = shards[shard] as Shard
    const kept = copies[shard] as Server[]
    const losses = ['flushed', 'older copy', 'older copy', 'split', 'healed', 'evicted', 'clock']
    const mayLose = !['ends', 'taken', 'checkpoint'].includes(kind)
    const others = ['copied', 'copied', 'down', 'up', 'full', 'late', 'late', 'moved', 'database']
    const what = dice.pick([...(mayLose ? losses : []), ...others])
    note(what)
    if (what === 'flushed') shards[shard] = [new Server(redisNow), other]
    if (what === 'copied') kept.push(server.copy())
    if (what === 'older copy' && kept.length > 0) {
      const older = dice.chance(0.5) ? (kept.at(-1) as Server) : dice.pick(kept)
      shards[shard] = [older.copy(), other]
    }
    if (what === 'split' && other === undefined) shards[shard] = [server, server.copy()]
    if (what === 'healed' && other !== undefined) {
      shards[shard] = [dice.chance(0.5) ? server : other, undefined]
    }
    if (what === 'evicted') {
      if (dice.chance(0.3)) server.marks.clear()
      if (kind === 'evicted') {
        for (const key of [...server.hashes.keys()]) {
          if (dice.chance(0.3)) server.hashes.delete(key)
        }
      }
    }
    if (what === 'down') for (const link of links) if (dice.chance(0.5)) link.isDown = true
    if (what === 'up') for (const link of links) link.isDown = false
    if (what === 'full') server.isFull = !server.isFull
    if (what === 'late') deliverLate()
    if (what === 'clock' && dice.chance(0.25)) redisAhead += dice.below(4_000_000)
    if (what === 'moved' && shards.length > 1) moveSlot(dice.pick(tags))
    if (what === 'database') isDatabaseDown = !isDatabaseDown
  }

  function moveSlot(tag: string): void {
    const from = shardOf(`{${tag}}`)
    const [source] = shards[from] as Shard
    const [target] = shards[1 - from] as Shard
    const isIn = (key: string): boolean => key.includes(`{${tag}}`)
    for (const [key, hash] of source.hashes) if (isIn(key)) target.hashes.set(key, hash)
    for (const [key, mark] of source.marks) if (isIn(key)) target.marks.set(key, mark)
    moved.set(tag, 1 - from)
  }

  function deliverLate(): void {
    for (const link of links) {
      for (const arrive of link.late.splice(0)) {
        try {
          arrive()
        } catch {}
      }
    }
  }

  return {
    links,
    longSums,
    connect,
    get isDatabaseDown(): boolean {
      return isDatabaseDown
    },
    fault: faultOfStore,
    deliverLate,
    /** What a server has of a window. */
    fields: (key: string): ReadonlyMap<string, ExactInt> =>
      (shards[shardOf(key)] as Shard)[0].fields(key),
    /** The dust settles: one side of each split is left. */
    heal(): void {
      for (const link of links) Object.assign(link, { trouble: 0, isDown: false })
      isDatabaseDown = false
      for (const [i, [one, other]] of shards.entries()) {
        const left = other !== undefined && dice.chance(0.5) ? other : one
        left.isFull = false
        shards[i] = [left, undefined]
      }
    },
  }
}
