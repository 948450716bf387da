import { chatPath, gatewayTests } from '../support/gateway.ts'
import { linesOf } from '../support/lines.ts'
import { sendRaw, toBytes } from '../support/raw-http.ts'

const test = gatewayTests({ env: { CHARGE_UNREPORTED: 'true' } })
const valid = '{"model":"sim","messages":[]}'

/** Envoy makes gRPC responses, with status 200, of its own responses to some of these. */
const types = [
  'application/grpc',
  'application/grpc+json',
  'application/grpc+proto',
  'application/grpc-web',
  'application/grpc-web+proto',
  'application/grpc;charset=utf-8',
  'Application/gRPC',
  'APPLICATION/GRPC+JSON',
]

test('gRPC requests are refused with 415 on every path, and nothing is counted', async (t, gateway) => {
  const { key } = await gateway.mint()
  const shared = '/v1/chat/completions'
  for (const type of types) {
    for (const [path, credential, body] of [
      [chatPath, key, valid],
      [shared, key, valid],
      [chatPath, 'sk-tg-invalid', valid],
      [shared, 'sk-tg-invalid', valid],
      [chatPath, key, '{"model":"sim","messages":[],"messages":1}'],
      [shared, key, '{"model":"sim","messages":[],"messages":1}'],
      ['/v1/messages', key, valid],
      ['/llm/sim/v1/audio/transcriptions', key, valid],
      ['/v1/api-keys', key, '{}'],
      ['/health', key, ''],
      ['/internal/v1/resources', key, ''],
      ['/nothing', key, ''],
    ] as const) {
      const headers = [`authorization: Bearer ${credential}`, `content-type: ${type}`]
      const answer = await sendRaw(gateway.port, toBytes({ path, headers, body }))
      const title = `${type} at ${path}`
      t.equal(answer.status, 415, title)
      t.match(answer.head, /^content-type: application\/json\r?$/im, title)
      t.match(answer.head, /^x-should-retry: false\r?$/im, title)
      t.notMatch(answer.head, /^grpc-/im, title)
      const { type: envelope, error } = JSON.parse(answer.body)
      t.match(error, { type: 'invalid_request_error', message: /^gRPC is not served; send JSON/ })
      if (path === '/v1/messages') t.equal(envelope, 'error')
      else t.equal(error.code, 'not_served')
    }
  }
  await gateway.settled()
  const lines = linesOf(gateway.journal)
    .ended()
    .map((line) => JSON.stringify(line))
  t.ok(lines.length > 0)
  t.strictSame(
    lines.filter((line) => line.includes('plenty')),
    [],
  )
})

test('a HEAD is refused with 415, too, and without a body', async (t, { port }) => {
  const headers = ['content-type: application/grpc']
  const [head, next] = [
    { method: 'HEAD', path: '/health', headers },
    { method: 'GET', path: '/health' },
  ]
  const first = toBytes(head).toString().replace('connection: close\r\n', '')
  const { status, head: received, body } = await sendRaw(port, first + toBytes(next))
  t.equal(status, 415)
  t.notMatch(received, /^grpc-/im)
  t.match(body, /^HTTP\/1\.1 200 OK\r\n/, 'the next response follows at once')
})
