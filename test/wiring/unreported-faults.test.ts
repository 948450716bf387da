import { test } from 'tap'
import { withPathInError } from '../../src/runtime/path-in-errors.ts'
import { unreportedFaults } from '../../src/wiring/unreported-faults.ts'

test('an error of the folder that is reported elsewhere is no fault', async (t) => {
  const faults: unknown[] = []
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' })
  const pass = unreportedFaults('/run/j/usage.jsonl', (error) => faults.push(error), ['ENOSPC'])
  pass(withPathInError('/run/j/usage.told', full))
  const open = { code: 'ENOSPC', path: '/run/j' }
  pass(Object.assign(new Error('of the folder itself'), open))
  t.strictSame(faults, [])
  pass(Object.assign(new Error('beside it'), { ...open, path: '/run/journal' }))
  t.equal(faults.splice(0).length, 1)
  const elsewhere = withPathInError('/data/usage.sums', full)
  pass(elsewhere)
  unreportedFaults('/run/j/usage.jsonl', (error) => faults.push(error))(full)
  t.strictSame(faults, [elsewhere, full])
})

test('while the folder cannot be read, no error of its files is one', async (t) => {
  const faults: unknown[] = []
  let isUnreadable = true
  const pass = unreportedFaults(
    '/run/j/usage.jsonl',
    (error) => faults.push(error),
    [],
    () => isUnreadable,
  )
  const refused = { code: 'EACCES', path: '/run/j/usage.writers' }
  const error = Object.assign(new Error('permission denied'), refused)
  pass(error)
  t.strictSame(faults, [])
  isUnreadable = false
  pass(error)
  pass(Object.assign(new Error('beside it'), { ...refused, path: '/data/usage.sums' }))
  t.equal(faults.length, 2)
})
