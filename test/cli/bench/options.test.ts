import { test } from 'tap'
import { cases } from '../../../src/cli/bench/cases.ts'
import { readOptions } from '../../../src/cli/bench/options.ts'

const namesOf = (rows: string) => readOptions(['--rows', rows]).cases.map(({ name }) => name)

test('all rows are measured for three minutes unless told', async (t) => {
  const options = readOptions([])
  t.equal(options.cases, cases)
  t.match(options, { seconds: 180, rounds: 3, perSecond: 400, envoyThreads: 1, set: {} })
})

test('rows are named whole or by their words', async (t) => {
  t.strictSame(namesOf('path-json-small'), ['path-json-small'])
  t.strictSame(namesOf('small-stream, body-json-large'), [
    'path-stream-small',
    'body-json-large',
    'body-stream-small',
  ])
  t.equal(namesOf('path').length, 4)
})

test('settings of the service are passed on', async (t) => {
  const { set } = readOptions(['--set', 'UNUSABLE_USAGE=estimate', '--set', 'METER_PATHS=a=b'])
  t.strictSame(set, { UNUSABLE_USAGE: 'estimate', METER_PATHS: 'a=b' })
})

test('what makes no sense is refused by name', async (t) => {
  for (const [args, message] of [
    [['--rows', 'path,medium'], /no row "medium"; rows are path-json-small/],
    [['--rows', ''], /no row ""/],
    [['--seconds', '1'], /--seconds is a whole number from 2 to 3600/],
    [['--rounds', '2'], /--rounds is a whole number from 3/],
    [['--rate', '1e3'], /--rate/],
    [['--connections', '0'], /--connections/],
    [['--concurrency', 'all'], /--concurrency/],
    [['--set', 'lower=1'], /--set is NAME=value/],
    [['--unknown'], /--unknown/],
    [['what'], /what/],
  ] as const) {
    t.throws(() => readOptions(args), { name: 'WrongCall', message })
  }
})
