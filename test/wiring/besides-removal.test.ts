import { test } from 'tap'
import { toNamed } from '../../src/runtime/name-file.ts'
import { besidesRemoval } from '../../src/wiring/besides-removal.ts'

test('an error of the folder that is reported elsewhere is no fault', async (t) => {
  const faults: unknown[] = []
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' })
  const pass = besidesRemoval('/run/j/usage.jsonl', (error) => faults.push(error), ['ENOSPC'])
  pass(toNamed('/run/j/usage.told', full))
  t.strictSame(faults, [])
  const elsewhere = toNamed('/data/usage.sums', full)
  pass(elsewhere)
  besidesRemoval('/run/j/usage.jsonl', (error) => faults.push(error))(full)
  t.strictSame(faults, [elsewhere, full])
})
