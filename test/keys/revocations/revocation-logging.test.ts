import { pino } from 'pino'
import { test } from 'tap'
import { LockedRowsError } from '../../../src/keys/revocations/revocation-keeper.ts'
import { followerLogging, keeperLogging } from '../../../src/keys/revocations/revocation-logging.ts'

test('what follows from a restored database is no fault of the service', async (t) => {
  const lines: string[] = []
  const log = pino({ base: null }, { write: (line: string) => void lines.push(line) })
  const faults: unknown[] = []
  followerLogging(log).onGap()
  const { onFault } = keeperLogging(log, (error) => void faults.push(error))
  onFault(new LockedRowsError(2))
  t.match(
    lines.map((line) => JSON.parse(line)),
    [
      { level: 40, code: 'revocations_gap', msg: /as after a restore/ },
      { level: 40, code: 'revocations_locked', keys: 2 },
    ],
  )
  t.strictSame(faults, [])
  const bug = new Error('other')
  onFault(bug)
  t.strictSame(faults, [bug])
})
