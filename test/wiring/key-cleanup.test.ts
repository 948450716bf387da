import { pino } from 'pino'
import { test } from 'tap'
import { ServiceError } from '../../src/formats/errors.ts'
import type { Context } from '../../src/wiring/context.ts'
import type { Database } from '../../src/wiring/database.ts'
import { startKeyCleanup } from '../../src/wiring/key-cleanup.ts'
import type { Keys } from '../../src/wiring/keys.ts'

/** The faults of a first cleanup that fails with this error. */
async function faultsAfter(error: Error): Promise<readonly unknown[]> {
  const faults: unknown[] = []
  const stops: Context['stops'] = []
  const note = async () => {}
  const context = {
    ...{ log: pino({ level: 'silent' }), clock: Date.now, stops },
    audit: { require: note, note },
    onFault: (fault: unknown) => faults.push(fault),
  }
  const deleteExpiredEphemeral = () => Promise.reject(error)
  const deps = { keys: { deleteExpiredEphemeral } }
  startKeyCleanup(context as unknown as Context, {} as Database, deps as unknown as Keys)
  await new Promise(setImmediate)
  for (const each of stops) if ('stop' in each) await each.stop(1_000)
  return faults
}

test('an outage of the database is no fault of the cleanup', async (t) => {
  t.strictSame(await faultsAfter(new ServiceError('store_unavailable')), [])
  const bug = new Error('a bug')
  t.strictSame(await faultsAfter(bug), [bug])
})
