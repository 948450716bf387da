import { test } from 'tap'
import { createEnvoyLogCheck } from '../../src/journal/envoy-log.ts'

test('what Envoy could not write is seen, and how late it writes', async (t) => {
  const world = { now: 0, failed: 5, flush: '0.020s', isAway: false }
  const asked: string[] = []
  const log = createEnvoyLogCheck(
    async (path, method = 'GET') => {
      asked.push(`${method} ${path}`)
      if (world.isAway) throw new Error('away')
      if (path === '/server_info') {
        return JSON.stringify({ command_line_options: { file_flush_interval: world.flush } })
      }
      return `filesystem.reopen_failed: 0\nfilesystem.write_failed: ${world.failed}\n`
    },
    () => world.now,
  )
  t.strictSame(await log.check(), { flushMs: 20, isFailing: false }, 'what failed before is over')
  world.failed += 1
  t.match(await log.check(), { isFailing: true })
  world.now += 9_999
  t.match(await log.check(), { isFailing: true })
  world.now += 1
  t.match(await log.check(), { isFailing: false })
  Object.assign(world, { failed: 0, flush: '10s' })
  t.strictSame(await log.check(), { flushMs: 10_000, isFailing: false }, 'another Envoy is asked')
  world.flush = '1s'
  world.now += 59_999
  t.match(await log.check(), { flushMs: 10_000 })
  world.now += 1
  t.match(await log.check(), { flushMs: 1_000 })
  world.isAway = true
  await t.rejects(log.check())
  await t.rejects(log.reopen())
  t.equal(asked.at(-1), 'POST /reopen_logs')
})
