/** Additional headers that a gateway or a server may obey. */
import type { Dice } from './dice.ts'
import type { Draft } from './draft.ts'

/** Adds a header before or after the others. */
export function header(draft: Draft, dice: Dice): void {
  const path = dice.pick(['/v1/chat/completions', '/v1/models', '/v1/completions', '/x'])
  const name = dice.pick([
    ...['x-tollgate-model', 'x-tollgate-cluster', 'x-tollgate-path', 'x-tollgate-body'],
    ...['x-tollgate-stream', 'x-tollgate-models', 'x-tollgate-content-type', 'content-type'],
    ...['authorization', 'x-api-key', 'content-length', 'host', 'accept', 'x-http-method-override'],
  ])
  const line = dice.pick([
    `${dice.pick(['x-http-method-override', 'x-http-method', 'x-method-override', '_method'])}: ${dice.pick(['POST', 'GET', 'PUT', 'post'])}`,
    `${dice.pick(['x-original-url', 'x-rewrite-url', 'x-original-uri', 'x-forwarded-uri', 'x-envoy-original-path'])}: ${path}`,
    `connection: ${dice.pick(['close', 'keep-alive', 'upgrade', name, `close, ${name}`])}`,
    `x-tollgate-${dice.pick(['model', 'cluster', 'path', 'body', 'stream', 'models', 'key-age'])}: ${dice.pick(['true', 'sim', 'other', path])}`,
    `x_tollgate_${dice.pick(['model', 'path', 'cluster'])}: ${path}`,
    `accept: ${dice.pick(['*/*', 'text/plain', 'application/xml', 'text/event-stream', 'application/x-ndjson', 'text/html;q=1,*/*;q=0', ''])}`,
    `accept-encoding: ${dice.pick(['gzip', 'br', 'deflate;q=1', 'identity;q=0, *'])}`,
    `accept-charset: ${dice.pick(['utf-16', 'utf-7', '*'])}`,
    `range: bytes=${dice.pick(['0-0', '0-9', '-1', '5-'])}`,
    `if-${dice.pick(['none-match: *', 'match: "x"', 'modified-since: Sat, 01 Jan 2050 00:00:00 GMT'])}`,
    `expect: ${dice.pick(['100-continue', '100-Continue', 'x'])}`,
    `te: ${dice.pick(['trailers', 'gzip', 'chunked'])}`,
    `upgrade: ${dice.pick(['h2c', 'websocket', 'TLS/1.0'])}`,
    `http2-settings: AAMAAABkAAQAAP__`,
    `x-maas-subscription: ${dice.pick(['x', '', 'plenty'])}`,
    `x-forwarded-${dice.pick(['for: 127.0.0.1', 'host: x', 'proto: https', 'prefix: /v1'])}`,
    `x-envoy-${dice.pick(['upstream-rq-timeout-ms: 1', 'retry-on: 5xx', 'max-retries: 9', 'hedge-on-per-try-timeout: true', 'decorator-operation: x', 'expected-rq-timeout-ms: 1'])}`,
    `host: ${dice.pick(['x', '', 'gateway:1', 'a, b'])}`,
    `cookie: ${dice.pick(['a=b', 'authorization=x', ''])}`,
    `grpc-timeout: 1n`,
    `x-request-id: ${dice.pick(['same', '', '00000000-0000-4000-8000-000000000000'])}`,
    `x-long: ${'x'.repeat(dice.pick([10, 1_000, 30_000, 70_000]))}`,
    `x-${dice.pick(['\u0080', 'a b', 'a(b', '', 'a\tb'])}: x`,
    `authorization: ${dice.pick(['Bearer x', 'Basic eDp5', '', 'bearer {{key}}', 'Bearer  {{key}} ', 'Bearer {{key}}, Bearer x'])}`,
    `x-api-key: ${dice.pick(['{{key}}', 'x', ''])}`,
  ])
  if (dice.chance(50)) draft.headers.unshift(line)
  else draft.headers.push(line)
}

/** Makes a header line invalid or unusual. */
export function oddLine(draft: Draft, dice: Dice): void {
  const at = dice.below(draft.headers.length)
  const line = draft.headers[at] ?? 'x: y'
  draft.headers[at] = dice.pick([
    line.replace(':', ' :'),
    line.replace(': ', ':\r\n '),
    line.replace(': ', ':\t'),
    line.replace(': ', ':'),
    `${line} `,
    `${line}\r\n\tx`,
    `${line}\n`,
    `${line}\0`,
    ` ${line}`,
    line.replace(/^./, (letter) => letter.toUpperCase()),
    line.replaceAll('-', '_'),
    `${line}\r\n${line}`,
    `\x0b${line}`,
  ])
}
