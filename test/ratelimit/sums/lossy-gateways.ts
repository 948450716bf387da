import { appendFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { addExact, type ExactInt, parseExact } from '../../../src/formats/exact.ts'
import { openDurableFiles } from '../../../src/journal/durable-files.ts'
import { openJournalFolder } from '../../../src/journal/journal-folder.ts'
import { connectRedis } from '../../../src/ratelimit/redis/connection.ts'
import { hashTags, windowKey } from '../../../src/ratelimit/redis/keys.ts'
import { type WindowedCounter, windowAt } from '../../../src/ratelimit/rules/windows.ts'
import { openGatewaySums } from '../../../src/ratelimit/sums/gateway-sums.ts'
import { startSums } from '../../../src/ratelimit/sums/process-sums.ts'
import { createRedisSums } from '../../../src/ratelimit/sums/redis-sums.ts'
import { createRandom, type Random } from '../../support/random.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'
import type { LossKind, LossWorld } from './loss-worlds.ts'
import { textLines } from './plain-lines.ts'

/** Of six users, so that several hash tags have some; a week, so that none ends meanwhile. */
const counters: readonly WindowedCounter[] = Array.from({ length: 6 }, (_, i) => ({
  key: `basic\nllm/small\n604800000\nuser ${i}`,
  ...{ owner: 'all', window: { ms: 604_800_000 } },
}))
const file = 'usage.jsonl'
const commandTimeoutMs = 80
const settledWithinMs = 60_000

export interface GatewaysOutcome {
  readonly kinds: readonly LossKind[]
  readonly lines: number
  /** Counters of which a gateway or the store does not have what the lines say, in the end. */
  readonly wrong: readonly string[]
}

/**
 * Gateways share counters over faulty connections, and Redis loses data two or three times, one loss soon
 * after the other or once all is restored, while they go on. In the end all must have what the lines say.
 */
export async function loseUnderGateways(world: LossWorld, seed: number): Promise<GatewaysOutcome> {
  await world.clear()
  const random = createRandom(seed)
  const folder = makeTemporaryFolder()
  const names = ['a', 'b', 'c'].slice(0, 2 + random.below(2))
  const gateways = await Promise.all(
    names.map((name) => startGateway(world, random, join(folder.path, name), name)),
  )
  const used: ExactInt[] = counters.map(() => 0)
  // Of money sums are large.
  const large = random.below(2) === 0 ? 0 : 2 ** 53 - 3_000
  let lines = 0
  function log(): void {
    const [which, tokens] = [
      random.below(counters.length),
      addExact(large, 1 + random.below(1_000)),
    ]
    const path = join(folder.path, names[random.below(names.length)] as string, file)
    appendFileSync(path, `\n${JSON.stringify({ which, tokens: String(tokens), id: lines })}\n`)
    used[which] = addExact(used[which] ?? 0, tokens)
    lines += 1
  }
  const traffic = setInterval(log, 5)
  const reading = setInterval(() => {
    for (const { read } of gateways) read().catch(() => {})
  }, 20)
  const kinds: LossKind[] = []
  try {
    await delay(300)
    for (let losses = 2 + random.below(2); losses > 0; losses -= 1) {
      const kind = world.kinds[random.below(world.kinds.length)] as LossKind
      kinds.push(kind)
      for (const step of world.stepsOf(kind, random)) {
        await step()
        await delay(random.below(150))
      }
      if (random.below(2) === 0) await delay(random.below(3_000))
    }
    await delay(200)
    clearInterval(traffic)
    // Their connections are faulty still, so that few can read all at once.
    const wrong = new Map<string, readonly string[]>(names.map((name) => [name, []]))
    for (const until = Date.now() + settledWithinMs; wrong.size > 0 && Date.now() < until; ) {
      await delay(100)
      for (const { gateway, compare } of gateways) {
        if (!wrong.has(gateway)) continue
        wrong.set(gateway, await compare(used))
        if (wrong.get(gateway)?.length === 0) wrong.delete(gateway)
      }
    }
    return { kinds, lines, wrong: [...wrong.values()].flat() }
  } finally {
    clearInterval(traffic)
    clearInterval(reading)
    for (const { close } of gateways) await close()
    folder.remove()
  }
}

async function startGateway(world: LossWorld, random: Random, path: string, gateway: string) {
  mkdirSync(path)
  const { url, close } = await world.connect(random)
  const connection = connectRedis(url, () => {}, commandTimeoutMs)
  await connection.connected(5_000)
  const tags = hashTags(connection.cluster)
  const store = createRedisSums(connection.commands)
  const clocks = { now: Date.now, monotonic: () => performance.now() }
  const sums = await openGatewaySums({
    ...{ ...clocks, gateway, store, files: [file], longSums: undefined },
    ...tags,
    folder: openJournalFolder(path),
    kept: openDurableFiles(join(path, 'kept')),
    ...textLines((text) => {
      const { which, tokens } = JSON.parse(text)
      const amount = parseExact(tokens) ?? 0
      return [{ at: Date.now(), amount, counters: [counters[which] as WindowedCounter] }]
    }),
    ...{ onLoss: () => {}, onDouble: () => {}, onFault: () => {} },
  })
  const running = startSums({
    ...{ ...clocks, sums, flushMs: 5, onLoss: 'allow' },
    ...{ onUnavailable: () => {}, onFault: () => {} },
  })
  const read = async () => running.read(counters, Date.now())
  return {
    ...{ gateway, read },
    async compare(expected: readonly ExactInt[]): Promise<readonly string[]> {
      const known = await read().catch(() => [])
      const stored = new Map<string, ExactInt>()
      for (const [own, all] of Map.groupBy(counters, ({ key }) => tags.tagOf(key))) {
        const keys = all.map((each) => windowKey(own, windowAt(each, Date.now())))
        const found = await store.read(keys).catch(() => [])
        for (const [i, { key }] of all.entries()) stored.set(key, found[i]?.get('+') ?? 0)
      }
      return counters.flatMap(({ key }, i) => {
        const all = [known[i]?.used, stored.get(key)]
        return all.every((each) => each === expected[i])
          ? []
          : [`${gateway} ${key}: ${all.join(' and ')} of ${expected[i]}`]
      })
    },
    async close(): Promise<void> {
      await running.stop(0)
      connection.close()
      await close()
    },
  }
}
