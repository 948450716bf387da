import { test } from 'tap'
import { allCases } from '../../../bench/gateway/cases.ts'
import { readOptions } from '../../../bench/gateway/options.ts'
import { askingOf } from '../../../bench/gateway/target.ts'

const of = ['--model', 'm', '--key', 'sk-1']
const namesOf = (rows: string) => readOptions(['--rows', rows], {}).cases.map(({ name }) => name)

test('by default measures all rows for three minutes', async (t) => {
  const options = readOptions([], {})
  t.equal(options.cases, allCases)
  t.match(options, { seconds: 180, rounds: 3, perSecond: 400, envoyThreads: 1, set: {} })
})

test('selects rows by full names or words', async (t) => {
  t.strictSame(namesOf('path-json-small'), ['path-json-small'])
  t.strictSame(namesOf('small-stream, body-json-large'), [
    'path-stream-small',
    'body-json-large',
    'body-stream-small',
  ])
  t.equal(namesOf('path').length, 5)
})

test('passes settings on to the service', async (t) => {
  const { set } = readOptions(['--set', 'UNUSABLE_USAGE=estimate', '--set', 'METER_PATHS=a=b'], {})
  t.strictSame(set, { UNUSABLE_USAGE: 'estimate', METER_PATHS: 'a=b' })
})

test('rejects invalid options by name', async (t) => {
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
    [['--key', 'sk-1'], /--key is for a --target/],
    [['--target', 'gateway', ...of], /--target: "gateway" is no address/],
    [['--target', 'http://10.0.0.1', ...of], /credential in the clear/],
    [['--target', 'http://127.0.0.1', '--model', 'm'], /--target needs --key/],
    [['--target', 'http://127.0.0.1', '--key', 'sk'], /--target needs --model/],
    [['--target', 'http://127.0.0.1', '--key', 'a b', '--model', 'm'], /--key contains spaces/],
    [['--target', 'http://127.0.0.1', ...of, '--model-path', 'llm m'], /--model-path is like/],
    [['--target', 'http://127.0.0.1', ...of, '--rows', 'path'], /need --model-path/],
    [['--target', 'http://127.0.0.1', ...of, '--set', 'A=b'], /for what is started here/],
    [['--target', 'http://127.0.0.1', ...of, '--baseline', 'ftp://x'], /--baseline: "ftp/],
  ] as const) {
    t.throws(() => readOptions(args, {}), { name: 'WrongCall', message })
  }
})

test('a target has a URL, a key and a model', async (t) => {
  const args = ['--target', 'https://gateway.example/v1/', '--model', 'm']
  const options = readOptions(args, { TOLLGATE_KEY: 'sk-env\n' })
  t.match(options.target, { url: 'https://gateway.example', key: 'sk-env', model: 'm' })
  t.equal(options.yardsticks, false)
  t.ok(options.cases.every(({ route }) => route === 'body'))
  if (options.target === undefined) throw new Error('no target')
  t.match(askingOf(options.target), { host: 'gateway.example', base: '', keys: ['sk-env'] })
})
