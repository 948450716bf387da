import { test } from 'tap'
import { readCheckRequest } from '../../src/extauthz/check-request.ts'
import { WireError, WireWriter } from '../../src/grpc/wire.ts'
import { checkOf, checkRequest } from '../support/envoy-messages.ts'
import { createRandom } from '../support/random.ts'

const nothing = {
  path: '',
  startedAt: undefined,
  method: '',
  authorization: undefined,
  apiKey: undefined,
  subscription: undefined,
  model: undefined,
  bodyProblem: undefined,
  miss: undefined,
  authenticateOnly: false,
  isUnread: false,
  source: undefined,
  listing: undefined,
  requestId: undefined,
  size: { bytes: undefined, maxOutput: undefined },
}

/** Reads the request and its source address. */
function read(bytes: Buffer) {
  const request = readCheckRequest(bytes)
  const { source, listing, size } = request
  return { ...request, source: source(), listing: listing(), size }
}

test('behind proxies the client is the address that the outermost one has appended', async (t) => {
  const sourceOf = (hops: number, forwarded?: string) => {
    const socket_address = { address: '10.0.0.1', port_value: 40_000 }
    const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
    const bytes = checkRequest.encode({
      attributes: { source: { address: { socket_address } }, request: { http: { headers } } },
    })
    return readCheckRequest(bytes, hops).source()
  }
  const claimed = '203.0.113.9, 192.0.2.7, 10.0.0.2,10.0.0.1'
  t.equal(sourceOf(0, claimed), '10.0.0.1', 'without proxies the header means nothing')
  t.equal(sourceOf(1, claimed), '10.0.0.2')
  t.equal(sourceOf(2, claimed), '192.0.2.7')
  t.equal(sourceOf(4, claimed), undefined, 'proxies that have not named it')
  t.equal(sourceOf(1), undefined)
})

/** A request with all fields that Envoy can send. */
const whole = checkRequest.encode({
  attributes: {
    source: {
      address: { socket_address: { address: '192.0.2.1', port_value: 40_000 } },
      principal: 'p',
    },
    destination: { address: { socket_address: { address: '127.0.0.1', port_value: 8_000 } } },
    request: {
      time: { seconds: 1_767_225_600, nanos: 5 },
      http: {
        id: '1234567890',
        method: 'POST',
        headers: {
          ':authority': 'gateway',
          ':method': 'POST',
          ':path': '/wrong',
          authorization: 'Bearer sk-tg-a_b',
          'content-length': '10000',
          'content-type': 'application/json',
          'x-api-key': 'sk-tg-c_d',
          'x-maas-subscription': 'basic',
          'x-request-id': 'request-1',
          'x-tollgate-model': 'ünï/Small',
          'x-tollgate-refusal': 'it is broken',
          'x-tollgate-miss': 'unknown',
        },
        path: '/llm/small/v1/chat/completions?a=b',
        host: 'gateway',
        scheme: 'http',
        query: 'a=b',
        fragment: '',
        size: -1,
        protocol: 'HTTP/1.1',
        body: 'x'.repeat(10_000),
        raw_body: Buffer.alloc(300, 1),
      },
    },
    context_extensions: { a: 'b', authorization: 'forged' },
    metadata_context: {
      filter_metadata: { ns: { fields: { authorization: { stringValue: 'forged' } } } },
    },
    route_metadata_context: { filter_metadata: {} },
    tls_session: { sni: 'x' },
  },
})

test('reads a request from Envoy', async (t) => {
  t.strictSame(read(whole), {
    path: '/llm/small/v1/chat/completions?a=b',
    startedAt: 1_767_225_600_000,
    method: 'POST',
    authorization: 'Bearer sk-tg-a_b',
    apiKey: 'sk-tg-c_d',
    subscription: 'basic',
    model: 'ünï/Small',
    bodyProblem: 'it is broken',
    miss: 'unknown',
    authenticateOnly: false,
    isUnread: false,
    source: '192.0.2.1',
    listing: undefined,
    requestId: 'request-1',
    size: { bytes: 10_000, maxOutput: undefined },
  })
  t.strictSame(read(checkOf('/v1/models')), { ...nothing, path: '/v1/models', method: 'GET' })
})

test('the size is what the gateway has read, else the declared length', async (t) => {
  const sizeOf = (headers: Record<string, string>) => read(checkOf('/', headers)).size
  const unknown = { bytes: undefined, maxOutput: undefined }
  t.strictSame(sizeOf({ 'content-length': '7', 'x-tollgate-size': '90;300;2;40;n must be' }), {
    ...{ bytes: 90, maxOutput: 300, choices: 2, leastOutput: 40, problem: 'n must be' },
  })
  t.strictSame(sizeOf({ 'x-tollgate-size': '90;;1;1;' }), {
    ...{ bytes: 90, maxOutput: undefined, choices: 1, leastOutput: 1 },
  })
  // Of a gateway that still runs with the script of an earlier version.
  t.match(sizeOf({ 'x-tollgate-size': '90;;1' }), { maxOutput: undefined, leastOutput: 1 })
  for (const odd of ['', '90', '90;x;1', '-1;2;3', '1;2;99999999', '1;2;3;', '1;2;3;4']) {
    t.strictSame(sizeOf({ 'x-tollgate-size': odd }), unknown, odd)
  }
  for (const odd of ['', '-1', '1e3', '9'.repeat(16)]) {
    t.strictSame(sizeOf({ 'content-length': odd }), unknown, odd)
  }
})

test('a route may request authentication only', async (t) => {
  const stage = (context_extensions: Record<string, string>) =>
    read(checkOf('/', {}, { context_extensions })).authenticateOnly
  t.ok(stage({ stage: 'authenticate' }))
  t.ok(stage({ a: 'b', stage: 'authenticate', c: 'd' }))
  t.ok(read(checkOf('/', {}, { context_extensions: { stage: 'unread' } })).isUnread)
  for (const other of [{}, { stage: '' }, { stage: 'x' }, { authenticate: 'stage' }]) {
    t.notOk(stage(other))
  }
})

test('distinguishes empty values from missing ones', async (t) => {
  const empty = read(checkOf('/', { authorization: '', 'x-tollgate-model': '' }))
  t.strictSame(empty, {
    ...nothing,
    path: '/',
    method: 'POST',
    authorization: '',
    model: '',
  })
})

test('reads no header of another name', async (t) => {
  const others = read(
    checkOf('/', {
      Authorization: 'Bearer a',
      'x-authorization': 'Bearer b',
      'x-maas-username': 'root',
      'x-maas-group': '["admins"]',
      'proxy-authorization': 'Bearer c',
      constructor: 'd',
    }),
  )
  t.strictSame(others, { ...nothing, path: '/', method: 'POST' })
})

test('reads empty messages as an empty request', async (t) => {
  for (const message of [
    {},
    { attributes: {} },
    { attributes: { request: {} } },
    { attributes: { request: { http: {} } } },
  ]) {
    t.strictSame(read(checkRequest.encode(message)), nothing)
  }
  t.strictSame(read(Buffer.alloc(0)), nothing)
})

test('ignores unknown fields', async (t) => {
  const later = new WireWriter().string(99, 'new').unsigned(98, 5).double(97, 1).finish()
  const padded = read(Buffer.concat([later, whole, later]))
  t.match(padded, { subscription: 'basic', source: '192.0.2.1' })
})

test('a client without an IP address has no source', async (t) => {
  for (const source of [
    { address: { pipe: { path: '@internal' } } },
    { address: { socket_address: { port_value: 1 } } },
    { service: 'a' },
  ]) {
    const bytes = checkRequest.encode({
      attributes: {
        source,
        destination: { address: { socket_address: { address: '192.0.2.9', port_value: 1 } } },
      },
    })
    t.notOk(read(bytes).source)
  }
})

test('a damaged source address is undefined', async (t) => {
  // CheckRequest.attributes, AttributeContext.source, Peer.address: its length is 10, but one byte
  // is left.
  t.strictSame(read(Buffer.from('0a040a020a0a', 'hex')), nothing)
})

test('a truncated request is rejected or lacks fields', async (t) => {
  const full = read(whole)
  for (let length = 0; length < whole.length; length += 1) {
    try {
      for (const [name, value] of Object.entries(read(whole.subarray(0, length)))) {
        if (value !== undefined && value !== '' && name !== 'size') {
          t.equal(value, full[name as keyof typeof full])
        }
      }
    } catch (error) {
      if (!(error instanceof WireError)) t.fail(String(error))
    }
  }
})

test('damaged requests throw only WireErrors', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const small = checkOf('/llm/small/v1/chat/completions', {
    authorization: 'Bearer sk-tg-a_b',
    'x-maas-subscription': 'b',
  })
  for (let round = 0; round < 30_000; round += 1) {
    const bytes = Buffer.from(small)
    for (let hits = random.below(4); hits >= 0; hits -= 1)
      bytes[random.below(bytes.length)] = random.below(256)
    try {
      read(bytes)
    } catch (error) {
      if (!(error instanceof WireError)) t.fail(`${bytes.toString('hex')}: ${String(error)}`)
    }
  }
})
