import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { listenLocally } from '../../support/listening.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { runBench } from './run-bench.ts'

async function benchOf(t: Test, answer: RequestListener, ...args: readonly string[]) {
  const port = await listenLocally(t, createServer(answer))
  const flags = ['--target', `http://127.0.0.1:${port}/v1`, '--model', 'm', '--seconds', '2']
  return runBench(t, [...flags, '--rate', '20', ...args], { TOLLGATE_KEY: 'sk-test' })
}

test('measures a running gateway by URL and key', async (t) => {
  const seen = new Set<string>()
  const answer: RequestListener = (request, response) => {
    seen.add(`${request.url} ${request.headers.authorization}`)
    request.resume()
    request.on('end', () => response.end('{}'))
  }
  const file = join(temporaryFolder(t), 'new.json')
  const bench = await benchOf(t, answer, '--rows', 'body-json-small', '--json', file)
  t.equal(await bench.ended, 0, bench.output())
  t.match(bench.output(), /^body-json-small +[\d,]+ ±\d+%/m)
  t.strictSame([...seen], ['/v1/chat/completions Bearer sk-test'])
  const [series] = JSON.parse(readFileSync(file, 'utf8')).series
  t.match(series, { case: 'body-json-small', subject: 'gateway', runs: { length: 3 } })
})

for (const [status, why] of [
  [401, 'the key is not known, revoked or expired'],
  [403, 'the key may not call this model'],
  [429, 'a limit of the key is spent'],
] as const) {
  test(`reports a ${status} of the target after one request`, async (t) => {
    let count = 0
    const bench = await benchOf(t, (_, response) => {
      count += 1
      response.writeHead(status).end('{}')
    })
    t.equal(await bench.ended, 1)
    t.match(bench.output(), `Of 1 requests to gateway`)
    t.match(bench.output(), `1 were answered ${status} (${why})`)
    t.equal(count, 1)
  })
}

test('reports a target that cannot be reached', async (t) => {
  const flags = ['--target', 'http://127.0.0.1:9', '--model', 'm', '--key', 'sk-1']
  const bench = runBench(t, [...flags], {})
  t.equal(await bench.ended, 1)
  t.match(bench.output(), /http:\/\/127\.0\.0\.1:9 cannot be reached: .*ECONNREFUSED/)
  t.notMatch(bench.output(), '    at ', 'without a stack trace')
})

test('reads the file for --compare before it measures', async (t) => {
  const bench = runBench(t, ['--compare', '/nowhere.json'], {})
  t.equal(await bench.ended, 1)
  t.match(bench.output(), '--compare: /nowhere.json cannot be read.')
  t.notMatch(bench.output(), 'Starting')
})
