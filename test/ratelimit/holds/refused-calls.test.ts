import { test } from 'tap'
import { createRefusedCalls } from '../../../src/ratelimit/holds/refused-calls.ts'

/** As the client of Redis throws it. */
class ReplyError extends Error {
  override name = 'ReplyError'
}

test('the first refusal is reported, and the end of all after a minute', async (t) => {
  const reports: string[] = []
  let now = 0
  const calls = createRefusedCalls({
    onRefused: (isRefused, cause) =>
      reports.push(isRefused ? (cause as Error).message : 'accepted'),
    monotonic: () => now,
  })
  for (const at of [0, 30_000, 80_000]) {
    now = at
    calls.note(new ReplyError(`WRONGTYPE at ${at}`))
    calls.endIfQuiet()
  }
  now = 139_999
  calls.endIfQuiet()
  t.ok(calls.isRefused)
  t.strictSame(reports, ['WRONGTYPE at 0'])
  now = 140_000
  calls.endIfQuiet()
  t.notOk(calls.isRefused)
  calls.note(new ReplyError('ERR user_script:9: attempt to compare nil with number'))
  t.equal(reports.length, 3)
  t.equal(reports[1], 'accepted')
})

test('outages are not reported twice: the sums do it', async (t) => {
  const calls = createRefusedCalls({ onRefused: () => t.fail() })
  calls.note(new Error('Command timed out'))
  for (const words of [
    'LOADING Redis is loading the dataset in memory',
    "READONLY You can't write against a read only replica. script: 1, on @user_script:1.",
    "ERR Error running script: @user_script:3: -READONLY You can't write against a replica.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    'CLUSTERDOWN The cluster is down',
    'NOAUTH Authentication required.',
  ]) {
    calls.note(new ReplyError(words))
  }
  t.notOk(calls.isRefused)
})
