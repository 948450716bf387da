import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Test, test } from 'tap'
import { makeTryLines } from '../../dev/try-lines.ts'
import { tryLines } from '../support/try-lines.ts'

/** A gateway that makes keys named after their Subscription, unless it is refused, and has one status for each. */
async function start(t: Test, statuses: Record<string, number>) {
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    if (request.url === '/v1/api-keys') {
      const { subscription } = JSON.parse(body)
      response.statusCode = subscription in statuses ? 201 : 403
      response.end(JSON.stringify({ key: subscription }))
      return
    }
    response.statusCode = statuses[request.headers.authorization?.split(' ')[1] ?? ''] ?? 401
    response.end('{}')
  })
  await new Promise<void>((settle) => void server.listen(0, '127.0.0.1', settle))
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function run(t: Test, statuses: Record<string, number>) {
  const gateway = await start(t, statuses)
  const warnings: string[] = []
  const log = (line: string) => void warnings.push(line)
  const { signal } = new AbortController()
  const lines = await makeTryLines({ gateway, signal, log, withinMs: 300 })
  return { shown: tryLines(lines.join('\n')).map((each) => each.slice(0, 6)), warnings }
}

test('leaves out commands that an edited or used sample does not answer', async (t) => {
  const all = { 'team-a-premium': 200, 'team-b-only': 403, 'team-a-tiny': 429 }
  t.strictSame(await run(t, all), { shown: ['# 200:', '# 403:', '# 429:'], warnings: [] })
  const spent = await run(t, { ...all, 'team-a-premium': 429 })
  t.strictSame(spent.shown, ['# 403:', '# 429:'])
  t.match(spent.warnings, [
    /^Left out the command that shows 200 \(an answer of the model\): .*429 {}$/,
  ])
  const raised = await run(t, { ...all, 'team-a-tiny': 200 })
  t.strictSame(raised.shown, ['# 200:', '# 403:'])
  t.match(raised.warnings, [/^Left out the command that shows 429 .* 200 {}$/])
  const removed = await run(t, { 'team-a-premium': 200, 'team-a-tiny': 429 })
  t.strictSame(removed.shown, ['# 200:', '# 429:'])
  t.match(removed.warnings, [/No key for bob \(403\)/])
})
