import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { chatPath, type Gateway, gatewayTests } from '../support/gateway.ts'
import { writeTable } from '../support/table-files.ts'

const test = gatewayTests()

/** A template for the sample model, as the service would write it for Check's answer. */
function templateFor(gateway: Gateway, changes: { flags?: string; limit?: number } = {}): string {
  const { flags = '', limit = 1_000 } = changes
  const file = join(gateway.clusters, 'clusters.json')
  const { resources } = JSON.parse(readFileSync(file, 'utf8'))
  const cluster = resources.find(({ name }: { name: string }) => name.includes('sim')).name
  return [
    ...[flags, '"subscription":"plenty","model":"llm/sim","payer":""', '/v1/chat/completions'],
    ...['', '', '', '', `"1h";q=${limit};w=3600;qu="tokens"`, `1h:${limit}:u`],
    ...['x-maas-subscription: plenty', `x-tollgate-cluster: ${cluster}`, ''],
  ].join('\n')
}

test('what the table knows is let pass without Check, and counted in a lane', async (t, gateway) => {
  const { key } = await gateway.mint()
  const table = writeTable(gateway.journal)
  table.template(0, templateFor(gateway, { limit: 30 }))
  table.block(0)
  table.record([key, chatPath, ''])
  table.record([key, '/v1/chat/completions', 'sim'])
  await gateway.stopService()
  t.teardown(() => gateway.startService())

  const first = await gateway.chat(key, { totalTokens: 12 })
  t.equal(first.status, 200, first.text)
  t.match(Object.fromEntries(first.headers), {
    'x-ratelimit-limit-tokens': '30',
    'x-ratelimit-remaining-tokens': '30',
    ratelimit: /^"1h";r=30;t=\d+$/,
  })
  t.equal(table.added(0), 12)
  const second = await gateway.chat(key, { totalTokens: 18 }, {}, '/v1/chat/completions')
  t.equal(second.status, 200, second.text)
  t.match(second.headers.get('ratelimit'), /^"1h";r=18;/)
  t.equal((await gateway.chat(key)).status, 503, 'the limit is for Check')
})
