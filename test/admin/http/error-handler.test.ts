import { Writable } from 'node:stream'
import { pino } from 'pino'
import { test } from 'tap'
import { createListApi } from '../../support/list-api.ts'

test('an outage is logged once for all requests that it fails, a bug for each', async (t) => {
  const lines: { code?: string; refusal?: string; unlogged?: number }[] = []
  const target = new Writable({
    write(chunk, _, done) {
      lines.push(JSON.parse(chunk))
      done()
    },
  })
  const api = await createListApi(t, { log: pino({}, target) })
  const ask = async (credential: string) => {
    const headers = { authorization: `Bearer ${credential}` }
    return (await api.external.inject({ url: '/v1/subscriptions', headers })).statusCode
  }
  for (let i = 0; i < 20; i += 1) t.equal(await ask('outage'), 503)
  api.snapshot = undefined
  for (let i = 0; i < 2; i += 1) t.equal(await ask('alice'), 500)
  const failed = lines.filter(({ code }) => code === 'request_failed')
  t.match(failed, [
    { refusal: 'store_unavailable', unlogged: 0 },
    { refusal: 'internal' },
    { refusal: 'internal' },
  ])
  t.equal(failed.length, 3)
})
