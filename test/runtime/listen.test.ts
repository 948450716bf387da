import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import Fastify from 'fastify'
import { type Test, test } from 'tap'
import { createGrpcServer } from '../../src/grpc/server.ts'
import { listenGrpc, listenHttp } from '../../src/runtime/listen.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Leaves the socket of a killed process. */
async function leaveSocket(path: string): Promise<void> {
  const program = `require('net').createServer().listen(${JSON.stringify(path)}, () => console.log(1))`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'ignore'] })
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
}

function createApi(t: Test) {
  const app = Fastify()
  app.get('/', () => 'well')
  t.teardown(() => app.close())
  return app
}

function createGrpc(t: Test) {
  const server = createGrpcServer({ unary: {}, onFault() {} })
  t.teardown(() => server.stop(0))
  return server
}

test('the socket of a killed process is replaced, with its permissions', async (t) => {
  const folder = temporaryFolder(t)
  const [api, grpc] = [join(folder, 'api'), join(folder, 'grpc')]
  for (const path of [api, grpc]) {
    await leaveSocket(path)
    t.ok(existsSync(path))
  }
  await listenHttp('API_ADDRESS', createApi(t), { path: api }, 0o660)
  await listenGrpc(createGrpc(t), { path: grpc }, 0o606)
  t.equal(statSync(api).mode & 0o777, 0o660)
  t.equal(statSync(grpc).mode & 0o777, 0o606)
  const [answer] = await once(request({ socketPath: api, path: '/' }).end(), 'response')
  t.equal(answer.statusCode, 200)
})

test('a socket in use is not taken over', async (t) => {
  const path = join(temporaryFolder(t), 'socket')
  const app = createApi(t)
  await listenHttp('API_ADDRESS', app, { path })
  await t.rejects(listenHttp('API_ADDRESS', createApi(t), { path }), {
    message: `API_ADDRESS: unix:${path} is already taken`,
  })
  await t.rejects(listenGrpc(createGrpc(t), { path }, 0o600), {
    message: `GRPC_ADDRESS: unix:${path} is already taken`,
  })
  await app.close()
  t.notOk(existsSync(path), 'removed when its server closes')
})

test('a file that is not a socket stays', async (t) => {
  const folder = temporaryFolder(t)
  const path = join(folder, 'file')
  writeFileSync(path, 'precious')
  await t.rejects(listenHttp('API_ADDRESS', createApi(t), { path }), { message: /^API_ADDRESS: / })
  t.equal(readFileSync(path, 'utf8'), 'precious')
  const nowhere = join(folder, 'no', 'folder')
  await t.rejects(listenHttp('API_ADDRESS', createApi(t), { path: nowhere }), {
    message: `API_ADDRESS: unix:${nowhere} cannot be listened on`,
  })
})

test('a listener logs nothing by itself: such lines have no code', async (t) => {
  const lines: string[] = []
  const app = Fastify({ logger: { stream: { write: (line: string) => lines.push(line) } } })
  t.teardown(() => app.close())
  await listenHttp('API_ADDRESS', app, { host: '127.0.0.1', port: 0 })
  t.strictSame(lines, [])
  app.log.info('later')
  t.match(lines, [/later/])
})
