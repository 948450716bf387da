/** Every admitted request has one line, whatever becomes of it, and whatever becomes of the files. */

import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import root, { type Test } from 'tap'
import type { JournalLine } from '../../src/journal/journal-line.ts'
import { requestOutcomeOf } from '../../src/journal/request-outcome.ts'
import { countedTokens } from '../../src/usage/rules/usage.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { chatPath, defaultResources, type Gateway, gatewayTests } from '../support/gateway.ts'
import { idsOf, linesOf } from '../support/lines.ts'
import { poll } from '../support/poll.ts'
import { mountSmallDisk, skipSmallDisk } from '../support/small-disk.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const disk = skipSmallDisk ? undefined : mountSmallDisk(root as Test)
const parent = disk?.path ?? temporaryFolder(root as Test)
const folder = join(parent, "it's \\ [here]")
const journal = join(folder, 'usage.jsonl')
const lines = linesOf(journal)

const limits = { 'llm/sim': [[1_000_000_000, '1h']] } as const
const test = gatewayTests({
  env: {
    ...{ METER_PATHS: 'chat,messages', USAGE_JOURNAL: journal },
    // Small, so that it is renamed under load.
    USAGE_JOURNAL_BYTES: '32768',
  },
  concurrency: 2,
  resources: (url) => [
    ...defaultResources(url),
    modelRef('dead', { backendUrl: 'http://127.0.0.1:9' }),
    accessPolicy('dead', ['llm/dead'], { groups: ['team'] }),
    subscription('alone', { groups: ['team'] }, { 'llm/dead': [[1_000, '1h']] }),
    subscription('reserves', { groups: ['team'] }, limits, {
      admission: { mode: 'reserve', charge: 'admission' },
    }),
  ],
})

/** Where no file system can be mounted, there is nothing to be seen. */
const onSmallDisk: typeof test = (title, body) =>
  disk === undefined ? root.test(title, { skip: skipSmallDisk }, async () => {}) : test(title, body)

const messages = [{ role: 'user', content: 'Hi' }]

interface Way {
  readonly leavesAfterMs?: number
  readonly method?: string
  /** Under which the model server counts its tokens. */
  readonly label?: string
}

/** Sends a request; resolves to its id once the answer has ended, in whatever way. */
function send(
  { port }: Gateway,
  key: string,
  path: string,
  body: object | string,
  { leavesAfterMs, method = 'POST', label = 'other' }: Way = {},
): Promise<{ id: string; status: number; text: string; isWhole: boolean }> {
  return new Promise((resolve) => {
    const authorization = `Bearer ${key}`
    const headers = { authorization, 'content-type': 'application/json', 'x-sim-label': label }
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const request = http.request({ port, method, path, headers }, (response) => {
      const id = String(response.headers['x-request-id'])
      const pieces: Buffer[] = []
      response.on('data', (piece) => pieces.push(piece))
      response.on('error', () => {})
      response.on('close', () =>
        resolve({
          ...{ id, status: response.statusCode ?? 0, isWhole: response.complete },
          text: Buffer.concat(pieces).toString(),
        }),
      )
    })
    request.on('error', () => resolve({ id: '', status: 0, text: '', isWhole: false }))
    request.end(method === 'GET' ? undefined : text)
    if (leavesAfterMs !== undefined) setTimeout(() => request.destroy(), leavesAfterMs)
  })
}

const { ended } = lines
const lineOf = (id: string) => ended().filter(({ usage }) => usage.response.id === id)
const tokensOf = (line: JournalLine | undefined) => line?.usage.reported.get('total_tokens')

test('each admitted request has one line', async (t, gateway) => {
  const user = gateway.newUser()
  const { key, id: keyId } = await gateway.mint({ user })
  const { key: reserving } = await gateway.mint({ user, subscription: 'reserves' })
  const { key: alone } = await gateway.mint({ user, subscription: 'alone' })
  const chat = { model: 'sim', messages }
  const begunAt = Date.now()
  const cases = [
    ['JSON', chatPath, chat, 'script', 200],
    ['a stream', chatPath, { ...chat, stream: true }, 'script', 200],
    ['a stream with usage', chatPath, withUsage(chat), 'script', 200],
    ['the shared path', '/v1/chat/completions', chat, 'script', 200],
    ['a message', '/v1/messages', { ...chat, max_tokens: 9, stream: true }, 'script', 200],
    ['no usage', chatPath, { ...chat, sim: { usage: 'none' } }, 'script', 200],
    ["the server's refusal", chatPath, { ...chat, sim: { status: 429 } }, 'envoy', 429],
    ["the server's failure", chatPath, { ...chat, sim: { status: 500 } }, 'envoy', 500],
    ['a broken body', chatPath, '{"model":"sim",}', 'envoy', 400],
    ['a server that is gone', '/llm/dead/v1/chat/completions', chat, 'envoy', 503],
    ['half an answer', chatPath, { ...chat, sim: { dropAfterChunks: 1 } }, 'envoy', 502],
  ] as const
  const ids = new Map<string, string>()
  for (const [name, path, body, by, status] of cases) {
    const sentAt = Date.now()
    const its = name === 'a server that is gone' ? alone : key
    const answer = await send(gateway, its, path, body, { label: by })
    ids.set(name, answer.id)
    t.equal(answer.status, status, name)
    if (by === 'envoy') await poll(() => lineOf(answer.id).length > 0, `${name}: its line`)
    const [line] = lineOf(answer.id)
    t.equal(
      idsOf(by === 'script' ? lines.ofScript() : lines.ofEnvoy()).includes(answer.id),
      true,
      name,
    )
    const { usage } = line as JournalLine
    t.match(usage, { user, status, model: /^llm/ }, name)
    if (by === 'script') t.match(usage, { keyId, subscription: 'plenty' }, name)
    t.equal(usage.bytes, Buffer.byteLength(answer.text), `${name}: its bytes`)
    t.ok((line?.startedAt ?? 0) >= sentAt - 1 && (line?.startedAt ?? 0) <= Date.now(), name)
    t.ok(usage.response.endedAt <= Date.now(), name)
    t.equal(line?.isMetered, true, name)
    t.equal(line?.firstByteMs !== undefined, !/broken|gone/.test(name), `${name}: a first byte`)
    t.equal(line?.isSent, !/broken|gone/.test(name), `${name}: sent`)
  }
  const failureOf = (name: string) => {
    const [line] = lineOf(ids.get(name) ?? '')
    return line && requestOutcomeOf(line).failure?.reason
  }
  t.equal(failureOf('JSON'), undefined)
  t.equal(failureOf('a broken body'), undefined)
  t.equal(failureOf('a server that is gone'), 'refused')
  t.equal(failureOf('half an answer'), 'reset')
  const listed = await send(gateway, key, '/llm/sim/v1/models', '', { method: 'GET' })
  await poll(() => lineOf(listed.id).length > 0, 'the line of what is not metered')
  t.match(lineOf(listed.id), [{ isMetered: false, usage: { status: 200 } }])

  const stream = withUsage({ ...chat, sim: { chunkDelayMs: 50, usageEveryChunk: true } })
  await send(gateway, key, chatPath, stream, { leavesAfterMs: 200 })
  await send(gateway, key, chatPath, { ...chat, sim: { hang: true } }, { leavesAfterMs: 100 })
  const left = () => ended().filter(({ flags }) => /\bD[CR]\b/.test(flags))
  await poll(() => left().length === 2, 'lines of those who left')
  const [early, late] = left().toSorted((a, b) => a.usage.status - b.usage.status)
  t.match(early, { usage: { hasLeft: true, status: 0 }, isSent: true, firstByteMs: undefined })
  t.equal(late?.usage.hasLeft, undefined)
  t.ok(Number(tokensOf(late)) > 0, 'the figures so far')
  const dropped = await send(
    gateway,
    key,
    chatPath,
    withUsage({ ...chat, sim: { dropAfterChunks: 2 } }),
  )
  await poll(() => lineOf(dropped.id).length > 0, 'the line of a server that died')
  t.match(lineOf(dropped.id), [{ usage: { status: 200 }, flags: /\w/ }])

  const held = await send(gateway, reserving, chatPath, chat)
  const [line] = lineOf(held.id)
  t.match(line?.usage, { held: { admittedAt: Number } })
  t.match(line?.usage, { estimate: { input: Number } })

  for (const bad of ['sk-nobody', undefined]) await gateway.chat(bad)
  const known = ended().filter(({ startedAt }) => startedAt >= begunAt - 1)
  t.equal(new Set(idsOf(known)).size, known.length, 'no request has two lines')
  t.equal(known.length, cases.length + 5, 'nothing else has one')
  const counted = cases.reduce((sum, [name, , , by]) => {
    const [line] = lineOf(ids.get(name) ?? '')
    return sum + (by === 'script' && line ? (countedTokens(line.usage) ?? 0) : 0)
  }, 0)
  const { labels } = await gateway.model.tally()
  t.equal(counted, labels?.script, "the model server's own tally")
  t.ok(counted > 0)
  t.equal(lines.torn(), 0)
  t.equal(lines.failed(), 0)
})

function withUsage<Body extends object>(body: Body) {
  return { ...body, stream: true, stream_options: { include_usage: true } }
}

/** A request that is answered after 11 seconds. */
let slow: ReturnType<typeof send> | undefined

test('a client that waits for its answer finds it in the file', async (t, gateway) => {
  const { key } = await gateway.mint()
  slow = send(gateway, key, chatPath, { model: 'sim', messages, sim: { delayMs: 11_000 } })
  for (let i = 0; i < 100; i += 1) {
    const { id } = await send(gateway, key, chatPath, { model: 'sim', messages, stream: i % 2 > 0 })
    if (!idsOf(lines.ofScript()).includes(id)) t.fail(`the line of request ${i} is missing`)
  }
})

/** Asks until `stop`; returns the ids of whole answers. */
async function load(gateway: Gateway, key: string, clients: number, isOver: () => boolean) {
  const got: string[] = []
  await Promise.all(
    Array.from({ length: clients }, async (_, i) => {
      while (!isOver()) {
        const body = { model: 'sim', messages, stream: i % 2 > 0 }
        const { id, status, isWhole } = await send(gateway, key, chatPath, body)
        if (status === 200 && isWhole) got.push(id)
      }
    }),
  )
  return got
}

test('files are renamed under load', async (t, gateway) => {
  const { key } = await gateway.mint()
  const had = lines.files().length
  const got = await load(gateway, key, 8, () => lines.files().length >= had + 4)
  await gateway.settled()
  const found = idsOf(ended())
  t.strictSame(
    got.filter((id) => !found.includes(id)),
    [],
    `none of ${got.length} is missing`,
  )
  t.equal(new Set(found).size, found.length)
  t.equal(lines.torn(), 0)
  t.equal(lines.failed(), 0)
})

test('a request that runs has a line every 10 seconds', async (t) => {
  const id = (await slow)?.id ?? ''
  await poll(() => lineOf(id).length > 0, 'its line')
  t.match(lineOf(id), [{ usage: { status: 200 } }])
  const running = lines
    .ofEnvoy()
    .filter(({ state, usage }) => state === 'running' && usage.response.id === id)
  t.equal(running.length, 1)
  t.match(running, [{ usage: { status: 0, bytes: 0 }, firstByteMs: undefined, isMetered: true }])
})

/** Responses while no line can be written, and then one whose line is there again. */
async function comesBack(t: Test, gateway: Gateway, fail: () => void, mend: () => void) {
  const { key } = await gateway.mint()
  await gateway.chat(key)
  const before = new Set(idsOf(ended()))
  fail()
  for (let i = 0; i < 40; i += 1) t.equal((await gateway.chat(key)).status, 200)
  mend()
  await poll(async () => {
    const { id } = await send(gateway, key, chatPath, { model: 'sim', messages })
    return idsOf(lines.ofScript()).includes(id)
  }, 'the script writes again')
  await poll(async () => {
    const { id } = await send(gateway, key, '/llm/sim/v1/models', '', { method: 'GET' })
    await pause(100)
    return idsOf(lines.ofEnvoy()).includes(id)
  }, "Envoy's log is written again")
  await gateway.settled()
  const found = idsOf(ended())
  t.equal(new Set(found).size, found.length, 'each once')
  return before
}

onSmallDisk('a full disk fails no response', async (t, gateway) => {
  const had = await comesBack(
    t,
    gateway,
    () => disk?.fill(),
    () => disk?.free(),
  )
  const found = new Set(idsOf(ended()))
  t.ok(
    [...had].every((id) => found.has(id)),
    'what was written stays',
  )
})

onSmallDisk('a read-only folder fails no response', async (t, gateway) => {
  const { key, id: keyId } = await gateway.mint()
  const run = (...line: string[]) =>
    t.equal(spawnSync(line[0] ?? '', [...line.slice(1), folder]).status, 0, line.join(' '))
  run('mount', '--bind', folder)
  run('mount', '-o', 'remount,bind,ro')
  // No script has the file open for longer.
  await pause(1_100)
  for (let i = 0; i < 40; i += 1) await gateway.chat(key)
  await gateway.settled()
  run('umount')
  const its = lines.ofEnvoy().filter(({ usage }) => usage.keyId === keyId)
  t.equal(its.length, 40, "Envoy's log, which is open, has each")
})

test('a folder that is gone fails no response, and comes back', async (t, gateway) => {
  await comesBack(
    t,
    gateway,
    () => rmSync(folder, { recursive: true }),
    () => {},
  )
})

test('what a client has got whole has its line, although Envoy is killed', async (t, gateway) => {
  const { key } = await gateway.mint()
  // No script has a file open for longer that was removed before.
  await pause(1_100)
  // Of the disk that was full; the file was removed, and is there again.
  const before = lines.torn()
  let over = false
  const loading = load(gateway, key, 16, () => over)
  await pause(500)
  process.kill(gateway.envoy.pid, 'SIGKILL')
  over = true
  const got = await loading
  const found = idsOf(lines.ofScript())
  t.strictSame(
    got.filter((id) => !found.includes(id)),
    [],
    `none of ${got.length} is missing`,
  )
  t.equal(lines.torn(), before)
})
