import { test } from 'tap'
import { buildBody, buildRequests, cases } from '../../../bench/gateway/cases.ts'

test('a body has the exact length of its case', async (t) => {
  for (const one of cases) {
    const body = buildBody(one, 'some-model')
    t.equal(body.length, one.bytes, one.name)
    const { model, stream, messages } = JSON.parse(body.toString())
    t.equal(model, 'some-model')
    t.equal(stream, one.answer === 'stream' ? true : undefined)
    t.ok(messages.length >= 1)
  }
  for (let bytes = 200; bytes < 4_000; bytes += 7) {
    t.equal(buildBody({ answer: 'json', bytes }, 'm').length, bytes)
  }
  t.throws(() => buildBody({ answer: 'json', bytes: 30 }, 'm'), RangeError)
})

test('builds one request per key', async (t) => {
  const asking = { host: 'gateway:80', modelPath: '/llm/m', model: 'm', keys: ['sk-1', 'sk-2'] }
  for (const one of cases) {
    const requests = buildRequests(one, asking).map(String)
    const path = one.route === 'path' ? '/llm/m/v1/chat/completions' : '/v1/chat/completions'
    t.match(
      requests,
      [1, 2].map((n) => `authorization: Bearer sk-${n}\r\n`),
    )
    for (const request of requests) {
      t.ok(request.startsWith(`POST ${path} HTTP/1.1\r\nhost: gateway:80\r\n`))
    }
  }
})
