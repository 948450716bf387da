import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import {
  type CleanupScheduleOptions,
  cleanupLockNumber,
  startCleanupSchedule,
} from '../../src/store/cleanup-schedule.ts'
import { whileAlone } from '../../src/store/postgres.ts'
import { createPostgresApiKeys } from '../../src/store/postgres-api-keys.ts'
import { createMigrated, createRecord, now } from '../support/key-store.ts'

const quiet: Pick<CleanupScheduleOptions, 'onDeleted' | 'onFault'> = {
  onDeleted() {},
  onFault() {},
}

test('it runs now and again, whatever fails', async (t) => {
  const told: unknown[] = []
  let runs = 0
  const schedule = startCleanupSchedule({
    async run() {
      runs += 1
      if (runs === 1) throw new Error('away')
      return runs === 2 ? 7 : 0
    },
    onDeleted: (deleted) => told.push(deleted),
    onFault: (error) => told.push(error),
    everyMs: 1,
  })
  const deadline = Date.now() + 10_000
  while (runs < 3 && Date.now() < deadline) await sleep(2)
  await schedule.stop()
  t.match(told, [{ message: 'away' }, 7])
  const stoppedAt = runs
  await sleep(20)
  t.equal(runs, stoppedAt)
})

test('stopping waits for the run under way', async (t) => {
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

test('of two processes one cleans up', async (t) => {
  const sql = await createMigrated(t)
  await createPostgresApiKeys(sql).insert(createRecord({ ephemeral: true, expiresAt: 0 }))
  const holding = Promise.withResolvers<void>()
  const letGo = Promise.withResolvers<void>()
  const first = whileAlone(sql, cleanupLockNumber, async (transaction) => {
    const deleted = await createPostgresApiKeys(transaction).deleteExpiredEphemeral(now)
    holding.resolve()
    await letGo.promise
    return deleted
  })
  await holding.promise
  t.equal(await whileAlone(sql, cleanupLockNumber, async () => 'alone'), undefined)
  letGo.resolve()
  t.equal(await first, 1)
  t.equal(await whileAlone(sql, cleanupLockNumber, async () => 'alone'), 'alone')
})

test('a failed run gives the lock back', async (t) => {
  const sql = await createMigrated(t)
  const failing = whileAlone(sql, cleanupLockNumber, async () => {
    throw new Error('away')
  })
  await t.rejects(failing, { message: 'away' })
  t.equal(await whileAlone(sql, cleanupLockNumber, async () => 'alone'), 'alone')
})
