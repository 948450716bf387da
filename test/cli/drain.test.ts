import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { Agent, createServer, get, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { noClusters, writeClusters } from '../../src/gateway/clusters.ts'
import { runAt } from '../support/command.ts'
import { type RunningEnvoy, startEnvoy } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { freePorts } from '../support/free-ports.ts'
import { listenLocally } from '../support/listening.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const nobody = { host: '127.0.0.1', port: 9 }

interface Slow {
  readonly envoy: RunningEnvoy
  /** Responses to clients that the test holds back. */
  readonly held: ServerResponse[]
}

/** An Envoy with an API whose responses the test releases. */
async function startSlow(t: Test): Promise<Slow> {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'clusters'))
  await writeClusters(join(folder, 'clusters'), noClusters)
  const held: ServerResponse[] = []
  const api = createServer(({ headers }, response) => {
    if (headers['user-agent'] === 'Envoy/HC') response.end()
    else held.push(response)
  })
  const port = await listenLocally(t, api)
  const clustersFile = join(folder, 'clusters', 'clusters.json')
  const settings = { folder, clustersFile, grpc: [nobody], api: [{ ...nobody, port }] }
  return { envoy: await startEnvoy(t, settings), held }
}

/** The outcome of a request: its status and `connection` header, or the error's code. */
async function ask(port: number, agent?: Agent): Promise<string> {
  const asked = get({ host: '127.0.0.1', port, path: '/health', agent: agent ?? false })
  const answer = (await once(asked, 'response').catch(({ code }) => [code]))[0] as IncomingMessage
  if (typeof answer === 'string') return answer
  await once(answer.resume(), 'end')
  return `${answer.statusCode} ${answer.headers.connection}`
}

const serviceIsGone = async () => `127.0.0.1:${(await freePorts(1))[0]}`

test('Envoy finishes its requests and accepts no new ones', { skip }, async (t) => {
  const { envoy, held } = await startSlow(t)
  const first = ask(envoy.port)
  await poll(() => held.length === 1, 'one request is running')
  const kept = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => kept.destroy())
  const answered = async (agent?: Agent) => {
    const asked = ask(envoy.port, agent)
    await poll(() => held.length === 2, 'the request has arrived')
    held.pop()?.end()
    return await asked
  }
  t.match(await answered(kept), /^200 keep-alive|^200 undefined/)

  const env = {
    INTERNAL_ADDRESS: await serviceIsGone(),
    ENVOY_ADMIN_ADDRESS: envoy.admin,
    // Long enough on a busy machine for what is asked meanwhile.
    DRAIN_MIN_SECONDS: '4',
    DRAIN_SECONDS: '60',
    // Not needed here, and perhaps not readable where this runs.
    DATABASE_URL_FILE: '/none',
  }
  const drained = runAt({ env }, 'drain')
  await poll(
    async () => (await answered(kept)) === '200 close',
    'open connections are asked to close',
  )
  t.equal(await answered(), '200 close', 'new connections are still served')
  await poll(async () => {
    const asked = ask(envoy.port)
    // A connection that waited to be accepted when the listener closed is reset.
    await poll(
      async () => held.length === 2 || (await isOver(asked)),
      'the request has arrived or was refused',
    )
    held.splice(1, 1)[0]?.end()
    return (await asked) === 'ECONNREFUSED'
  }, 'new connections are refused')
  held.pop()?.end()
  t.equal(await first, '200 close')
  t.equal((await drained).status, 0)
  t.match((await drained).out, /does not respond.*ECONNREFUSED.*No request is running/s)
})

async function isOver(asked: Promise<unknown>): Promise<boolean> {
  return (await Promise.race([asked, undefined])) !== undefined
}

test('a connection in use brings its last request', { skip }, async (t) => {
  const { envoy, held } = await startSlow(t)
  const kept = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => kept.destroy())
  const answered = async () => {
    const asked = ask(envoy.port, kept)
    await poll(() => held.length === 1, 'the request has arrived')
    held.pop()?.end()
    return await asked
  }
  t.match(await answered(), /^200/)
  const env = {
    INTERNAL_ADDRESS: await serviceIsGone(),
    ENVOY_ADMIN_ADDRESS: envoy.admin,
    DRAIN_MIN_SECONDS: '0',
    DRAIN_SECONDS: '60',
  }
  const drained = runAt({ env }, 'drain')
  const isRefused = async () => {
    const asked = ask(envoy.port)
    await poll(async () => held.length === 1 || (await isOver(asked)), 'it ended or arrived')
    held.pop()?.end()
    return (await asked) === 'ECONNREFUSED'
  }
  await poll(isRefused, 'new connections are refused')
  // A drain that looks only at requests ends with its next look.
  await delay(1_500)
  t.notOk(await isOver(drained))
  t.equal(await answered(), '200 close')
  t.equal((await drained).status, 0)
})

test('stops waiting after DRAIN_SECONDS', { skip }, async (t) => {
  const { envoy, held } = await startSlow(t)
  const asked = ask(envoy.port)
  await poll(() => held.length === 1, 'one request is running')
  const env = {
    INTERNAL_ADDRESS: await serviceIsGone(),
    ENVOY_ADMIN_ADDRESS: envoy.admin,
    DRAIN_MIN_SECONDS: '0',
    DRAIN_SECONDS: '1',
  }
  const { status, out } = await runAt({ env }, 'drain')
  t.equal(status, 1)
  t.match(out.split('\n').at(-1), /^1 requests are still running after [1-9]\d*\.\d s/)
  held[0]?.end()
  t.match(await asked, /^200/)
})

test('an Envoy that the service cannot reach is 3', async (t) => {
  const service = createServer((_request, response) => response.end('{"status":"unreachable"}'))
  const env = { INTERNAL_ADDRESS: `127.0.0.1:${await listenLocally(t, service)}` }
  const { status, out } = await runAt({ env }, 'drain')
  t.match({ status, out }, { status: 3, out: /^Envoy does not respond/ })
})

test('fails at once if Envoy is not running', async (t) => {
  const folder = temporaryFolder(t)
  const env = {
    INTERNAL_ADDRESS: `unix:${join(folder, 'no.sock')}`,
    ENVOY_ADMIN_ADDRESS: `unix:${join(folder, 'none.sock')}`,
  }
  const gone = await runAt({ env }, 'drain')
  t.match(gone, { status: 3, err: /^ENVOY_ADMIN_ADDRESS: unix:.* does not respond/ })
  t.equal((await runAt({ env }, 'drain', 'now')).status, 2)
  const wrong = { ...env, DRAIN_SECONDS: '5', DRAIN_MIN_SECONDS: '6' }
  const late = await runAt({ env: wrong }, 'drain')
  t.match(late, { status: 1, err: /DRAIN_MIN_SECONDS: is more than DRAIN_SECONDS/ })
})
