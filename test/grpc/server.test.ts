import { join } from 'node:path'
import * as grpc from '@grpc/grpc-js'
import { test } from 'tap'
import { createCheck } from '../../src/extauthz/check.ts'
import { createGrpcServer } from '../../src/grpc/server.ts'
import { WireError } from '../../src/grpc/wire.ts'
import { pathRules } from '../../src/operations/operations.ts'
import { snapshotOf } from '../support/documents.ts'
import { checkOf, readDenial } from '../support/envoy-messages.ts'
import { connect, startGrpc } from '../support/grpc-client.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const check = '/envoy.service.auth.v3.Authorization/Check'

test('Check responds over a real channel', async (t) => {
  const snapshot = snapshotOf()
  const { ask, faults } = await startGrpc(t, {
    unary: {
      [check]: createCheck({
        authenticate: () => null,
        snapshot: () => snapshot,
        limits: (grant) => grant,
        paths: pathRules(),
        clock: () => 0,
        onFault: (error) => t.fail(String(error)),
      }),
    },
  })
  const answer = await ask(check, checkOf('/llm/small/v1/chat/completions'))
  t.match(readDenial(answer), { http: 401, grpc: 16 })
  for (const malformed of ['ff', '0a05', '0b0c', '00', '0a02ffff', '0affffffff0f']) {
    await t.rejects(
      ask(check, Buffer.from(malformed, 'hex')),
      { code: grpc.status.INVALID_ARGUMENT, details: /^malformed message: / },
      malformed,
    )
  }
  t.strictSame(faults, [], 'a malformed message is not an internal error')
  t.match(
    readDenial(await ask(check, checkOf('/llm/small/v1/models'))),
    { http: 401 },
    'the next call succeeds',
  )
})

test('returns asynchronous responses and errors', async (t) => {
  const fault = new Error('secret detail')
  const { ask, faults } = await startGrpc(t, {
    unary: {
      '/test/late': async (message) => Buffer.concat([message, message]),
      '/test/fault': () => {
        throw fault
      },
      '/test/late-fault': async () => {
        throw fault
      },
      '/test/late-malformed': async () => {
        throw new WireError('cut short')
      },
    },
  })
  t.same(await ask('/test/late', Buffer.from('ab')), Buffer.from('abab'))
  for (const path of ['/test/fault', '/test/late-fault']) {
    await t.rejects(ask(path, Buffer.alloc(0)), {
      code: grpc.status.INTERNAL,
      details: 'internal error',
    })
  }
  t.strictSame(faults, [fault, fault])
  await t.rejects(ask('/test/late-malformed', Buffer.alloc(0)), {
    code: grpc.status.INVALID_ARGUMENT,
  })
  await t.rejects(ask('/test/none', Buffer.alloc(0)), { code: grpc.status.UNIMPLEMENTED })
})

test('concurrent calls get their own responses', async (t) => {
  const { ask } = await startGrpc(t, { unary: { '/test/echo': async (message) => message } })
  const messages = Array.from({ length: 500 }, (_, index) => Buffer.from(`message ${index}`))
  t.same(await Promise.all(messages.map((message) => ask('/test/echo', message))), messages)
})

test('cancelled streams affect no other call', async (t) => {
  const { ask, watch, faults } = await startGrpc(t, {
    unary: { '/test/echo': (message) => message },
  })
  const watching = watch('/grpc.health.v1.Health/Watch', Buffer.alloc(0))
  let isSeen = false
  watching.on('data', () => {
    isSeen = true
  })
  watching.on('error', () => {})
  await poll(() => isSeen, 'the watch has begun')
  watching.cancel()
  t.same(await ask('/test/echo', Buffer.from('a')), Buffer.from('a'))
  t.strictSame(faults, [])
})

test('an unknown method is not implemented, and told of', async (t) => {
  const unknown: string[] = []
  const { ask } = await startGrpc(t, { onUnknown: (path) => unknown.push(path) })
  await t.rejects(ask('/test/gone', Buffer.alloc(0)), { code: grpc.status.UNIMPLEMENTED })
  t.strictSame(unknown, ['/test/gone'])
})

test('a stop waits for calls', async (t) => {
  let finish: ((answer: Buffer) => void) | undefined
  const slow = (): Promise<Buffer> =>
    new Promise((resolve) => {
      finish = resolve
    })
  const { ask, server } = await startGrpc(t, { unary: { '/test/slow': slow } })
  const answer = ask('/test/slow', Buffer.alloc(0))
  await poll(() => finish, 'the call has begun')
  const stopped = server.stop(20_000)
  finish?.(Buffer.from('done'))
  t.same(await answer, Buffer.from('done'))
  await stopped
})

test('a stop ends open calls after its deadline', async (t) => {
  let isOpen = false
  const never = (): Promise<Buffer> => {
    isOpen = true
    return new Promise(() => {})
  }
  const { ask, server } = await startGrpc(t, { unary: { '/test/never': never } })
  const ended = ask('/test/never', Buffer.alloc(0))
  ended.catch(() => {})
  await poll(() => isOpen, 'the call has begun')
  await server.stop(50)
  await t.rejects(ended)
  await server.stop(50)
  t.pass('a second stop returns')
})

test('listens on several addresses', async (t) => {
  const path = `unix:${join(temporaryFolder(t), 'grpc.sock')}`
  const { server, ask } = await startGrpc(t, { unary: { '/test/echo': (message) => message } })
  t.equal(await server.listen(path), 0)
  const other = connect(t, path)
  for (const call of [ask, other.ask])
    t.same(await call('/test/echo', Buffer.from('a')), Buffer.from('a'))
})

test('rejects an address in use', async (t) => {
  const { port } = await startGrpc(t, {})
  const second = createGrpcServer({ unary: {}, onFault() {} })
  t.teardown(() => second.stop(0))
  await t.rejects(second.listen(`127.0.0.1:${port}`), /EADDRINUSE|bind/)
})

test('refuses calls that come from a model of the gateway', async (t) => {
  const hopMark = 'mark-of-this-gateway'
  const { port } = await startGrpc(t, { hopMark, unary: { '/test/echo': (message) => message } })
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure())
  t.teardown(() => client.close())
  const ask = (mark: string) =>
    new Promise((settle) => {
      const metadata = new grpc.Metadata()
      metadata.set('x-tollgate-hop', mark)
      const bytes = (message: Buffer): Buffer => message
      client.makeUnaryRequest('/test/echo', bytes, bytes, Buffer.from('a'), metadata, (error) =>
        settle(error?.code),
      )
    })
  t.equal(await ask(hopMark), grpc.status.FAILED_PRECONDITION)
  t.equal(await ask('mark-of-another'), undefined)
})
