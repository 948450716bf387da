import { test } from 'tap'
import { createHttp1Reader } from '../../../bench/gateway/http1-reader.ts'

const messages = [
  'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
  'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nx: y\r\n\r\n',
  'POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}',
  'GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n',
].join('')

function read(pieces: readonly Buffer[]): string[] {
  const seen: string[] = []
  let body = ''
  const take = createHttp1Reader({
    onHead: (head) => void seen.push(head.split('\r\n')[0] ?? ''),
    onBody: (piece) => {
      body += piece
    },
    onEnd: () => {
      seen.push(body)
      body = ''
    },
  })
  for (const piece of pieces) take(piece)
  return seen
}

test('reads messages from pieces of any size', async (t) => {
  const whole = Buffer.from(messages)
  const expected = [
    ...['HTTP/1.1 200 OK', 'hello', 'HTTP/1.1 204 No Content', ''],
    ...['HTTP/1.1 200 OK', 'abc0123456789abcdef', 'POST / HTTP/1.1', '{}'],
    ...['GET /v1/models HTTP/1.1', ''],
  ]
  t.strictSame(read([whole]), expected)
  for (let at = 1; at < whole.length; at += 1) {
    t.strictSame(read([whole.subarray(0, at), whole.subarray(at)]), expected, `split at ${at}`)
  }
  t.strictSame(read([...whole].map((byte) => Buffer.from([byte]))), expected, 'byte by byte')
})

test('rejects messages without a length', async (t) => {
  t.throws(() => read([Buffer.from('HTTP/1.1 200 OK\r\n\r\n')]), /has no length/)
  const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'
  t.throws(() => read([Buffer.from(`${chunked}nonsense\r\n`)]), /no size/)
  t.throws(() => read([Buffer.from(chunked + '0'.repeat(5_000))]), /no size/)
  t.throws(() => read([Buffer.alloc(70_000, 'x')]), /too long/)
})
