import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import {
  type CleanupScheduleOptions,
  startCleanupSchedule,
} from '../../src/keys/cleanup-schedule.ts'

const quiet: Pick<CleanupScheduleOptions, 'onDeleted' | 'onFault'> = {
  onDeleted() {},
  onFault() {},
}

test('the cleanup runs regularly, even after failures', async (t) => {
  const told: unknown[] = []
  let runs = 0
  const schedule = startCleanupSchedule({
    async run() {
      runs += 1
      if (runs === 1) throw new Error('unavailable')
      return runs === 2 ? 7 : 0
    },
    onDeleted: (deleted) => told.push(deleted),
    onFault: (error) => told.push(error),
    everyMs: 1,
  })
  const deadline = Date.now() + 10_000
  while (runs < 3 && Date.now() < deadline) await sleep(2)
  await schedule.stop()
  t.match(told, [{ message: 'unavailable' }, 7])
  const stoppedAt = runs
  await sleep(20)
  t.equal(runs, stoppedAt)
})

test('stopping waits for the current run', async (t) => {
  const begun = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  let ended = false
  const schedule = startCleanupSchedule({
    ...quiet,
    async run() {
      begun.resolve()
      await end.promise
      ended = true
      return 0
    },
  })
  await begun.promise
  const stopped = schedule.stop()
  end.resolve()
  await stopped
  t.equal(ended, true)
  await schedule.stop()
})
