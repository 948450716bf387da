/** A user in the namespace `llm`, whose requests come from pods, as any other user's do. */

import { poll } from '../poll.ts'
import { imageHere, kubectl } from './cluster.ts'

/** The gateway, as pods reach it. */
export const url = 'http://tollgate-gateway.tollgate'

const there = ['-n', 'llm']

const newKey = `
const { URL: url, TOKEN: token } = process.env
const headers = { authorization: 'Bearer ' + token, 'content-type': 'application/json' }
const made = await fetch(url + '/v1/api-keys', { method: 'POST', headers, body: '{"name":"soak"}' })
console.log(JSON.stringify({ status: made.status, ...await made.json() }))`

const me = `
const { URL: url, TOKEN: token } = process.env
const answer = await fetch(url + '/v1/me', { headers: { authorization: 'Bearer ' + token } })
console.log(JSON.stringify({ status: answer.status, ...await answer.json() }))`

const chat = `
const { URL: url, KEY: key, MODEL: model, TOKENS: tokens } = process.env
const headers = { authorization: 'Bearer ' + key, 'content-type': 'application/json' }
const body = JSON.stringify({ model, max_tokens: +tokens, messages: [{ role: 'user', content: 'Hi' }] })
const { status } = await fetch(url + '/v1/chat/completions', { method: 'POST', headers, body })
console.log(status)`

const limits = `
const { URL: url, KEY: key } = process.env
const answer = await fetch(url + '/v1/limits', { headers: { authorization: 'Bearer ' + key } })
console.log(JSON.stringify((await answer.json()).data))`

/**
 * Uses keep-alive connections, at most 48 requests at a time; reports the responses by kind and number, the reported
 * tokens, and details of the first 100 failures.
 */
const load = `
import { existsSync } from 'node:fs'
import { Agent, request } from 'node:http'
const { URL: url, KEY: key, RATE: rate } = process.env
const agent = new Agent({ keepAlive: true, maxSockets: 24, scheduling: 'fifo' })
const headers = { authorization: 'Bearer ' + key, 'content-type': 'application/json' }
const body = JSON.stringify({ model: 'sim-small', max_tokens: 2, messages: [{ role: 'user', content: 'Hi' }] })
const counts = {}
const failures = []
let tokens = 0
let open = 0
const one = () => new Promise((done) => {
  open += 1
  const sentAt = Date.now()
  const end = (result, about) => {
    counts[result] = (counts[result] ?? 0) + 1
    if (counts[200] === 200) console.log('under way')
    if (result !== 200) failures.push({ result, sentAt, endedAt: Date.now(), isReused: sent.reusedSocket, ...about })
    open -= 1
    done()
  }
  const sent = request(url + '/v1/chat/completions', { method: 'POST', agent, headers, timeout: 20_000 }, (answer) => {
    let text = ''
    answer.setEncoding('utf8').on('data', (more) => { text += more })
      .on('error', ({ code }) => end(code))
      .on('end', () => {
        const { usage, error } = text.startsWith('{') ? JSON.parse(text) : {}
        tokens += usage?.total_tokens ?? 0
        const { 'x-request-id': id, connection } = answer.headers
        end(error === undefined ? answer.statusCode : answer.statusCode + ' ' + error.code, { id, connection, text: text.slice(0, 200) })
      })
  }).on('timeout', () => sent.destroy(new Error('no answer')))
    .on('error', ({ code, message }) => end(code ?? message, { text: message }))
  sent.end(body)
})
const all = []
const startedAt = Date.now()
for (let sent = 0; sent < 1_200 * rate && !existsSync('/tmp/stop'); sent += 1) {
  if (open < 48) all.push(one())
  const early = startedAt + (sent * 1_000) / rate - Date.now()
  if (early > 0) await new Promise((next) => setTimeout(next, early))
}
await Promise.all(all)
const failedAt = failures.map(({ endedAt }) => endedAt)
const failedMs = failedAt.length > 0 ? Math.max(...failedAt) - Math.min(...failedAt) : 0
console.log(JSON.stringify({ counts, tokens, failedMs, failures: failures.slice(0, 100) }))`

async function createPod(
  name: string,
  command: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const pod = {
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'llm' } },
    spec: {
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 0,
      containers: [
        {
          ...{ name: 'user', image: imageHere, command },
          env: Object.entries(env).map(([name, value]) => ({ name, value })),
        },
      ],
    },
  }
  await kubectl([...there, 'delete', `pod/${name}`, '--ignore-not-found'])
  await kubectl(['apply', '-f', '-'], JSON.stringify(pod))
  await kubectl([...there, 'wait', `pod/${name}`, '--for=condition=Ready', '--timeout=120s'])
}

/** Starts the user's pod, and makes the user an API key; returns its status and the key. */
export async function startUser() {
  const ignore = '--ignore-not-found'
  await kubectl([...there, 'delete', 'serviceaccount/alice', ignore])
  await kubectl([...there, 'create', 'serviceaccount', 'alice'])
  await createPod('user', ['sleep', '86400'], {})
  return (await runThere(newKey, { TOKEN: await newToken() })) as { status: number; key: string }
}

async function newToken(): Promise<string> {
  return (await kubectl([...there, 'create', 'token', 'alice'])).trim()
}

/** The user as the service identifies them; `startUser` comes first. */
export const askWho = async () =>
  (await runThere(me, { TOKEN: await newToken() })) as {
    readonly status: number
    readonly username?: string
    readonly administrator?: boolean
  }

/** The status of a chat completion. */
export const ask = (key: string, model = 'sim-small', tokens = 2) =>
  runThere(chat, { KEY: key, MODEL: model, TOKENS: `${tokens}` })

/** The tokens that are counted for the key. */
export async function usedBy(key: string): Promise<number> {
  const [{ used } = { used: 0 }] = (await runThere(limits, { KEY: key })) as { used: number }[]
  return used
}

async function runThere(module: string, env: Readonly<Record<string, string>>): Promise<unknown> {
  const set = Object.entries({ URL: url, ...env }).map(([name, value]) => `${name}=${value}`)
  const program = ['env', ...set, 'node', '--input-type=module', '-']
  return JSON.parse(await kubectl([...there, 'exec', '-i', 'user', '--', ...program], module))
}

export interface LoadResult {
  /** Answers by status or error. */
  readonly counts: Readonly<Record<string, number>>
  /** The tokens that the answers report. */
  readonly tokens: number
  /** Time from the first failure to the last. */
  readonly failedMs: number
  readonly failures: readonly Failure[]
}

/** A request that was not answered with 200. */
export interface Failure {
  /** The status with the error's code, or the error of the connection. */
  readonly result: string | number
  /** By the clock of the user's node (milliseconds since 1970). */
  readonly sentAt: number
  readonly endedAt: number
  /** Whether its connection had served another request before. */
  readonly isReused: boolean
  /** The gateway's id of the request, if it answered. */
  readonly id?: string
  /** The response, or the error's message. */
  readonly text: string
}

/**
 * Sends `rate` requests a second, from a pod of its own, which needs no API server, for at most twenty
 * minutes; `stop` ends it.
 */
export async function startLoad(key: string, rate = 40) {
  const env = { URL: url, KEY: key, RATE: `${rate}` }
  await createPod('load', ['node', '--input-type=module', '-e', load], env)
  const logs = [...there, 'logs', 'pod/load']
  await poll(async () => (await kubectl(logs)) !== '', 'the load is under way', 120_000)
  return {
    async stop(): Promise<LoadResult> {
      await kubectl([...there, 'exec', 'load', '--', 'touch', '/tmp/stop'])
      const done = '--for=jsonpath={.status.phase}=Succeeded'
      await kubectl([...there, 'wait', 'pod/load', done, '--timeout=60s'])
      return JSON.parse((await kubectl(logs)).trim().split('\n').at(-1) ?? '')
    },
  }
}
