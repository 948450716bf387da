/**
 * A process of a gateway for the soak of sums, which kills it: it follows the file in a folder, and shares
 * its sums through a Redis. Arguments: the folder, the name of the gateway, the URL, `writer` or `reader`.
 */

import { statSync } from 'node:fs'
import { join } from 'node:path'
import { parseExact } from '../../../src/formats/exact.ts'
import { openDurableFiles } from '../../../src/journal/durable-files.ts'
import { openJournalFolder } from '../../../src/journal/journal-folder.ts'
import { connectRedis } from '../../../src/ratelimit/redis/connection.ts'
import { openGatewaySums } from '../../../src/ratelimit/sums/gateway-sums.ts'
import { startSums } from '../../../src/ratelimit/sums/process-sums.ts'
import { createRedisSums } from '../../../src/ratelimit/sums/redis-sums.ts'
import { textLines } from '../../ratelimit/sums/plain-lines.ts'
import { counters } from '../../ratelimit/sums/schedules.ts'

const [path = '', gateway = '', url = '', role] = process.argv.slice(2)
const file = 'usage.jsonl'
const renameAt = 8_000
const connection = connectRedis(url, () => {}, 300)
const clocks = { now: Date.now, monotonic: () => performance.now() }
const folder = openJournalFolder(path)
const sums = await openGatewaySums({
  ...clocks,
  ...{ gateway, folder, files: [file], tags: ['all'], tagOf: () => 'all', longSums: undefined },
  kept: openDurableFiles(join(path, 'kept')),
  store: createRedisSums(connection.commands),
  ...textLines((text) => {
    try {
      const { t, n, c } = JSON.parse(text)
      return [{ at: t, amount: parseExact(n) ?? 0, counters: c.map((i: number) => counters[i]) }]
    } catch {
      return undefined
    }
  }),
  onLoss: () => {},
  onDouble: () => console.error('double'),
  onFault: (error) => console.error(error),
})
// By mistake, it does not look whether another one writes.
if (role === 'writer') await sums.becomeWriter()
const running = startSums({
  ...{ ...clocks, sums, flushMs: 5, onLoss: 'allow' },
  onUnavailable: () => {},
  onFault: () => {},
})
setInterval(() => void running.read(counters, Date.now()), 20)
setInterval(() => {
  if (!sums.isWriter) return
  if ((statSync(join(path, file), { throwIfNoEntry: false })?.size ?? 0) < renameAt) return
  folder.renew(file, `${file}.${Date.now()}`)
  sums.save().catch((error: unknown) => console.error(error))
}, 50)
