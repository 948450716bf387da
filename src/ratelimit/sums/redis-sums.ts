/** A SumStore in Redis. */

import { type ExactInt, exactFromJson } from '../../formats/exact.ts'
import { oldCounterKey, oldWindowKey } from '../redis/keys.ts'
import { parseSums } from '../rules/other-sums.ts'
import { markMs, type SumCommands } from './scripts.ts'
import type { SumStore } from './sum-store.ts'

/** Called after each call that wrote sums, with its duration (ms) and the number of counters. */
export type OnFlushed = (tookMs: number, counters: number) => void

export function createRedisSums(commands: SumCommands, onFlushed?: OnFlushed): SumStore {
  return {
    async write(mark, entries, ended = []) {
      const keys = [mark?.key ?? entries[0]?.key ?? '']
      const own = mark === undefined ? [0, 0, ''] : [mark.number, mark.acknowledged, mark.nonce]
      const args = [...own, markMs]
      for (const { key, field, sum, ttlMs } of entries) {
        keys.push(key)
        args.push(field, typeof sum === 'number' ? sum : String(sum), Math.ceil(ttlMs))
      }
      const releases = ended.map((each) => [each.keys, each.ids] as const)
      const begin = performance.now()
      const result = await (releases.length === 0
        ? commands.writeSums(keys, args)
        : commands.writeAndRelease([keys, args], releases))
      const [number, nonce, ...figures] = result
      if (figures.length !== 2 * entries.length) throw new Error(unexpected)
      const sums = entries.map((_, i): [ExactInt, ExactInt] => [
        exactOf(figures[2 * i]),
        exactOf(figures[2 * i + 1]),
      ])
      // Calls without sums only look for losses.
      if (entries.length > 0) onFlushed?.(performance.now() - begin, entries.length)
      return { number, nonce, sums }
    },
    async read(keys) {
      const found = await commands.readSums(keys, [])
      if (found.length !== keys.length) throw new Error(unexpected)
      return found.map(parseSums)
    },
    async readOld(windows) {
      const keys = windows.flatMap(({ counter }) => [oldCounterKey(counter), oldWindowKey(counter)])
      const found = await commands.oldSums(
        keys,
        windows.map(({ id }) => id),
      )
      if (found.length !== windows.length) throw new Error(unexpected)
      return found
    },
  }
}

function exactOf(figure: number | string | undefined): ExactInt {
  const exact = exactFromJson(figure)
  if (exact === undefined) throw new Error(unexpected)
  return exact
}

const unexpected = 'the response of Redis has an unexpected form'
