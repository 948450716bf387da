import { test } from 'tap'
import { commands } from '../../src/cli/commands.ts'
import { parseTimeFlag, readTimeFlag, timeForms } from '../../src/cli/time-flag.ts'
import { runAt } from '../support/command.ts'

test('a time is a day, an instant, or a duration from now or ago', async (t) => {
  const noon = Date.UTC(2026, 2, 1, 12)
  for (const direction of ['ahead', 'ago'] as const) {
    t.equal(readTimeFlag('--x', '2026-03-01', direction), noon - 12 * 3_600_000)
    t.equal(readTimeFlag('--x', '2026-03-01T12:00:00Z', direction), noon)
    t.equal(readTimeFlag('--x', '2026-03-01T14:00:00+02:00', direction), noon)
    for (const raw of ['monday', '2026-02-30', '2026-03-01T12:00', '3', '-3d', '999999999d'])
      t.throws(
        () => readTimeFlag('--x', raw, direction),
        /^--x must be a day like .* like 3d\.$/,
        raw,
      )
  }
  const away = (direction: 'ahead' | 'ago') => readTimeFlag('--x', '1.5h', direction) - Date.now()
  t.ok(Math.abs(away('ahead') - 5_400_000) < 60_000)
  t.ok(Math.abs(away('ago') + 5_400_000) < 60_000)
  t.equal(parseTimeFlag('--x', '2026-03-01', 'ago'), '2026-03-01T00:00:00.000Z')
  t.equal(parseTimeFlag('--x', undefined, 'ago'), undefined)
})

test('every flag that takes a time takes the same forms', async (t) => {
  const env = { TOLLGATE_URL: 'http://127.0.0.1:1', TOLLGATE_TOKEN: 'x', DATA_DIR: '/nonexistent' }
  let count = 0
  for (const { name, flags, operands = [] } of commands.all) {
    for (const [flag, each] of Object.entries(flags)) {
      if (each.takes !== '<time>') continue
      const words = [...name.split(' '), ...operands.map(() => 'examples/resources')]
      if (name === 'increases grant' || name === 'limit-requests new')
        words.push('--limit', 'x', '--to', '1', '--reason', 'x', '--until', '1d')
      for (const [raw, isTime] of [
        ['2026-12-01', true],
        ['2026-12-01T00:00:00Z', true],
        ['3d', true],
        ['monday', false],
      ] as const) {
        const { status, err } = await runAt({ env }, ...words, `--${flag}`, raw)
        t.equal(status === 2, !isTime, `${name} --${flag} ${raw}: ${err}`)
        if (!isTime) t.match(err, `--${flag} must be a day like`)
      }
      const isKnown = Object.values(timeForms).some((forms) => each.means.includes(forms))
      t.ok(isKnown || flag === 'to', `${name} --${flag} says so`)
      count += 1
    }
  }
  t.ok(count > 7)
})
