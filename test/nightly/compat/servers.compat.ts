import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import root, { type Test } from 'tap'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { envoyPath } from '../../support/envoy-binary.ts'
import { freePorts } from '../../support/free-ports.ts'
import { meter, models, startGateway, subscriptions } from '../../support/gateway.ts'
import { startModelServer } from '../../support/model-server.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startServer } from '../fuzz/gateway/servers.ts'
import { here, installPackages, pythonWith } from './libraries.ts'
import { type Recorder, startRecorder } from './recorder.ts'

const secret = 'sk-of-the-model-server'
const limit = 1_000_000

async function startProcess(
  t: Test,
  line: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv,
  url: string,
): Promise<void> {
  const [program, ...args] = line
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let log = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-4_000)
    })
  }
  const ended = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  await poll(
    async () => {
      if (child.exitCode !== null) throw new Error(`${program} ended: ${log}`)
      const answer = await fetch(url).catch(() => undefined)
      return answer !== undefined && answer.status < 500
    },
    `${program} is ready`,
    120_000,
  )
}

/** LiteLLM's proxy, which requires its master key. */
async function startLitellm(t: Test): Promise<string> {
  const [port] = await freePorts(1)
  const config = join(temporaryFolder(t), 'config.yaml')
  const mock = (name: string) => ({
    model_name: name,
    litellm_params: { model: 'openai/gpt-4o', api_key: 'none', mock_response: 'A mock response.' },
  })
  writeFileSync(
    config,
    JSON.stringify({
      model_list: [mock('mock-gpt')],
      general_settings: { master_key: secret },
    }),
  )
  const start = 'from litellm import run_server; run_server()'
  const args = ['--config', config, '--host', '127.0.0.1', '--port', String(port)]
  const url = `http://127.0.0.1:${port}`
  const env = await pythonWith('litellm')
  await startProcess(t, ['python3', '-c', start, ...args], env, `${url}/health/liveliness`)
  return url
}

async function startAimock(t: Test): Promise<string> {
  installPackages()
  const [port] = await freePorts(1)
  const fixtures = join(temporaryFolder(t), 'fixtures.json')
  const response = { content: 'A mock response.' }
  writeFileSync(
    fixtures,
    JSON.stringify({ fixtures: [{ match: { userMessage: 'Hi' }, response }] }),
  )
  const program = join(here, 'node_modules', '.bin', 'llmock')
  const url = `http://127.0.0.1:${port}`
  const line = [process.execPath, program, '-p', String(port), '-f', fixtures] as const
  await startProcess(t, [...line], process.env, `${url}/v1/models`)
  return url
}

async function startLlama(t: Test): Promise<string> {
  const [variant] = await startServer(t, 'llama')
  return `http://127.0.0.1:${variant?.port}`
}

/** The metered operations that each server has, and those that it cannot stream. */
const servers = {
  // Its `mock_response` cannot stream responses: it answers 500, also without a gateway.
  litellm: { start: startLitellm, serves: ['chat', 'responses', 'messages'], whole: ['responses'] },
  aimock: {
    start: startAimock,
    serves: ['chat', 'responses', 'messages', 'embeddings'],
    whole: ['embeddings'],
  },
  llama: { start: startLlama, serves: ['chat', 'completions'], whole: [] },
  sim: {
    start: async (t: Test) => (await startModelServer(t)).url,
    serves: ['chat', 'responses', 'messages', 'completions', 'embeddings'],
    whole: ['embeddings'],
  },
} as const

type Kind = (typeof servers)[keyof typeof servers]['serves'][number]

const calls: Record<Kind, readonly [path: string, body: object]> = {
  chat: ['chat/completions', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 5 }],
  completions: ['completions', { prompt: 'Hi', max_tokens: 5 }],
  responses: ['responses', { input: 'Hi' }],
  messages: ['messages', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 5 }],
  embeddings: ['embeddings', { input: 'Hi' }],
}

root.test(
  '200 mixed calls to all servers are counted as the servers reported',
  { skip: envoyPath() === undefined && 'no Envoy' },
  async (t) => {
    const secrets = temporaryFolder(t)
    mkdirSync(join(secrets, 'hosts'))
    writeFileSync(join(secrets, 'hosts', 'litellm'), secret)
    const recorders = new Map<string, Recorder>()
    for (const [name, { start }] of Object.entries(servers)) {
      recorders.set(name, await startRecorder(t, await start(t as Test)))
    }
    const names = Object.keys(servers)
    const keys = names.map((name) => `hosts/${name}`)
    const gateway = await startGateway(t as Test, {
      lists: true,
      env: {
        METER_PATHS: 'chat,messages,responses,completions,embeddings',
        SECRETS_DIR: secrets,
      },
      resources: (backendUrl) => [
        ...models(backendUrl),
        ...subscriptions({ plenty: limit }),
        meter,
        ...names.map((name) => {
          const hosted = { credential: { file: 'litellm' }, upstreamModel: 'mock-gpt' }
          const url = recorders.get(name)?.url
          return modelRef(name, { backendUrl: url, ...(name === 'litellm' && hosted) }, 'hosts')
        }),
        accessPolicy('hosts', keys, { groups: ['team'] }),
        ...keys.map((key) =>
          subscription(
            key.replace('/', '-'),
            { groups: ['team'] },
            {
              [key]: [[limit, '1h']],
            },
          ),
        ),
      ],
    })

    const kinds = names.flatMap((name) => {
      const { serves, whole } = servers[name as keyof typeof servers]
      return (serves as readonly Kind[]).flatMap((kind) =>
        ((whole as readonly Kind[]).includes(kind) ? [false] : [false, true]).map(
          (stream) => [name, kind, stream] as const,
        ),
      )
    })
    const holders = new Map<string, string>()
    for (const name of names) {
      const { key } = await gateway.mint({ subscription: `hosts-${name}` })
      holders.set(name, key)
    }
    const answers: string[] = []
    for (let call = 0; call < 200; call += 1) {
      const [name, kind, stream] = kinds[call % kinds.length] as (typeof kinds)[number]
      const [path, body] = calls[kind]
      // Alternates between model path and shared path; every other stream requests usage itself.
      const where = call % 3 === 0 ? `/v1/${path}` : `/hosts/${name}/v1/${path}`
      const usage = call % 2 === 0 && (kind === 'chat' || kind === 'completions')
      const more = stream && usage ? { stream_options: { include_usage: true } } : {}
      const { status, text } = await gateway.ask(where, holders.get(name), {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: name, ...body, stream, ...more }),
      })
      t.equal(status, 200, `${name}: ${kind}${stream ? ', streamed' : ''}: ${text.slice(0, 300)}`)
      answers.push(text)
    }

    for (const [name, recorder] of recorders) {
      t.equal(recorder.counts.without, 0, `${name} reported usage for each response`)
      t.ok(recorder.said() > 0)
      await poll(async () => {
        const ask = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }
        const path = `/hosts/${name}/v1/chat/completions`
        const { headers } = await gateway.ask(path, holders.get(name), ask)
        return limit - Number(headers.get('x-ratelimit-remaining-tokens')) === recorder.said()
      }, `${recorder.said()} tokens of ${name} are counted`)
      t.comment(`${name}: ${recorder.counts.with} answers, ${recorder.said()} tokens`)
    }
    t.equal(recorders.get('litellm')?.headers().authorization, `Bearer ${secret}`)
    t.notMatch(recorders.get('aimock')?.headers().authorization, secret)

    const dump = await (await fetch(`http://${gateway.envoy.admin}/config_dump`)).text()
    const metrics = gateway.addresses.metrics
    const scrape = await (await fetch(`http://${metrics?.host}:${metrics?.port}/metrics`)).text()
    for (const text of [...answers, dump, scrape, gateway.envoy.log()]) t.notMatch(text, secret)

    const { key } = await gateway.mint({ subscription: 'hosts-llama' })
    const listed = JSON.parse((await gateway.ask('/v1/models', key)).text).data
    t.ok(listed.length > 0, 'llama.cpp lists its model')
    for (const { id } of listed) {
      const { status } = await gateway.chat(
        key,
        {},
        { model: id, max_tokens: 2 },
        '/v1/chat/completions',
      )
      t.equal(status, 200, `${id} is callable`)
    }
    const { key: hosted } = await gateway.mint({ subscription: 'hosts-litellm' })
    const [own] = JSON.parse((await gateway.ask('/v1/models', hosted)).text).data
    t.equal(own?.id, 'litellm', 'by its own name')
  },
)
