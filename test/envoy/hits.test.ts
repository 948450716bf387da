import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import { chargeOf, countedTokens } from '../../src/usage/rules/usage.ts'
import { chatPath, type Gateway, gatewayTests } from '../support/gateway.ts'
import { linesOf } from '../support/lines.ts'
import { poll } from '../support/poll.ts'
import { sendRaw, toBytes } from '../support/raw-http.ts'
import { bootTime, writeTable } from '../support/table-files.ts'

/**
 * The service is stopped: what the table lets pass is answered by the model, and everything else is 503, with the reason
 * for which Check would have been asked. The listener lets clients' headers of ours pass.
 */
const test = gatewayTests({
  adjustEnvoy(text) {
    const removal =
      /\{\s*"remove_on_match": \{\s*"key_matcher": \{\s*"prefix": "x-tollgate-",[^}]*\}\s*\}\s*\},/
    if (!removal.test(text)) throw new Error('the bootstrap removes nothing of ours at ingress')
    const unavailable = /The server behind this path is not available, try again\./g
    return text.replace(removal, '').replace(unavailable, '%REQ(x-tollgate-miss)%')
  },
})

const sharedPath = '/v1/chat/completions'
const hour = 3_600_000

type Changes = {
  flags?: string
  limits?: string
  policy?: string
  record?: Parameters<ReturnType<typeof writeTable>['record']>[1]
}

/** A template for the sample model, as the service would write it. */
function templateFor(gateway: Gateway, { flags = '', limits, policy }: Changes = {}): string {
  const { resources } = JSON.parse(readFileSync(join(gateway.clusters, 'clusters.json'), 'utf8'))
  const cluster = resources.find(({ name }: { name: string }) => name.includes('sim')).name
  return [
    ...[flags, '"subscription":"plenty","model":"llm/sim","payer":""', sharedPath, '', '', '', ''],
    ...[policy ?? '"1h";q=1000;w=3600;qu="tokens"', limits ?? '1h:1000:u'],
    ...['x-maas-subscription: plenty', `x-tollgate-cluster: ${cluster}`, ''],
  ].join('\n')
}

/** A table that knows a key, in a gateway whose service does not answer. `blocks`: those of its records. */
async function known(
  t: Test,
  gateway: Gateway,
  changes: Changes & { blocks?: readonly Cell[][] } = {},
) {
  const key = `sk-test-${Math.random().toString(36).slice(2)}`
  const { blocks = [[windowCell()]], record = {} } = changes
  let table = writeTable(gateway.journal)
  const renew = () => table.head({ lease: bootTime() + 4_900 })
  const put = () => {
    renew()
    table.template(0, templateFor(gateway, changes))
    for (const [number, cells] of blocks.entries()) table.block(number, { cells })
    const all = [...blocks.keys()]
    table.record([key, chatPath, ''], { blocks: all, ...record })
    table.record([key, sharedPath, 'sim'], { blocks: all, ...record }, 1)
  }
  put()
  await gateway.stopService()
  t.teardown(() => gateway.startService())
  // The end of the service, or of a request on a busy machine, may take longer than a lease.
  await poll(async () => {
    renew()
    return (await gateway.chat(key)).status === 200
  }, 'the script has found the table')
  return {
    key,
    table: () => table,
    put,
    replace() {
      table = writeTable(gateway.journal)
      put()
    },
  }
}

type Cell = ReturnType<typeof windowCell>

/** The window of this hour, with what was used in it. */
function windowCell(offset = 0) {
  const start = Date.now() - (Date.now() % hour)
  return { start, end: start + hour, offset, nextEnd: start + 2 * hour, nextOffset: 0 }
}

const missOf = (text: string): string | undefined => JSON.parse(text).error?.message

test('what the table knows is let pass, counted in a lane and told in a line', async (t, gateway) => {
  const limits = '1h:100000:u,1d:300000:u,1h:90000:k'
  const blocks = [[windowCell(), windowCell(1_000)], [windowCell(7)]]
  const { key, table: current } = await known(t, gateway, { limits, policy: 'p', blocks })
  const table = current()
  const before = table.added(0)
  const asked = [
    { totalTokens: 12 },
    { usage: { prompt_tokens: 5, completion_tokens: 7 } },
    { usage: { total_tokens: 0, prompt_tokens: 5, completion_tokens: 7 } },
    { usage: { total_tokens: -1, prompt_tokens: 5, completion_tokens: 7 } },
    { usage: { total_tokens: 1.5, prompt_tokens: 5 } },
    { usage: { total_tokens: '12' } },
    { usage: { total_tokens: 0, prompt_tokens: 0, completion_tokens: 0 } },
    { usage: { prompt_tokens: 5, completion_tokens: 7, cache_read_input_tokens: 3 } },
    { usage: { cache_read_input_tokens: 3, cache_creation_input_tokens: 4 } },
    { usage: { input_tokens: 3, output_tokens: 4 } },
    { usage: null },
  ]
  let sum = 0
  for (const [i, sim] of asked.entries()) {
    for (const fields of [{}, { stream: true }]) {
      const seen = linesOf(gateway.journal).ofScript().length
      const path = i % 2 === 0 ? chatPath : sharedPath
      const { status, headers, text } = await gateway.chat(key, sim, fields, path)
      t.equal(status, 200, text)
      t.equal(headers.get('ratelimit-policy'), 'p')
      const line = linesOf(gateway.journal).ofScript().at(-1)
      t.equal(linesOf(gateway.journal).ofScript().length, seen + 1)
      t.match(line, {
        usage: { user: 'ann', keyId: 'k', subscription: 'plenty', model: 'llm/sim' },
      })
      const tokens = line && countedTokens(line.usage)
      const lane = tokens ? { file: table.file, added: tokens, blocks: [0, 1] } : undefined
      t.strictSame(line?.lane, lane, JSON.stringify([sim, fields]))
      t.match(headers.get('ratelimit'), `"1h";r=${100_000 - before - sum};`)
      t.match(headers.get('ratelimit'), `, "1d";r=${299_000 - before - sum};`)
      t.match(headers.get('ratelimit'), `, "1h";r=${89_993 - before - sum};`)
      sum += tokens ?? 0
      t.equal(table.added(0), before + sum)
      t.equal(table.added(1), before + sum)
    }
  }
  t.ok(sum > 50)
})

test('where an estimate is charged, no less is in the lane until its line is read', async (t, gateway) => {
  const limits = '1h:100000:u'
  const record = { inputPerByte: 0.5, bytesPerToken: 2 }
  const { key, table } = await known(t, gateway, { flags: 'e', limits, record })
  const before = table().added(0)
  let [added, charged] = [0, 0]
  for (const sim of [
    { usage: 'none' },
    { usage: null, words: 90 },
    { usage: { prompt_tokens: 7 } },
    { usage: { prompt_tokens: 7, completion_tokens: 0.5 }, answerBytes: 5_000 },
    { usage: { total_tokens: 30 } },
  ]) {
    for (const fields of [{}, { stream: true }]) {
      t.equal((await gateway.chat(key, sim, fields)).status, 200)
      const line = linesOf(gateway.journal).ofScript().at(-1)
      const { tokens = 0 } = line === undefined ? {} : chargeOf(line.usage, 'allow')
      t.ok(tokens > 0, 'it is charged')
      t.ok(Number(line?.lane?.added) >= tokens, `${line?.lane?.added} of ${tokens}`)
      added += line?.lane?.added ?? 0
      charged += tokens
    }
  }
  t.equal(table().added(0), before + added)
  t.ok(added < 5 * charged, 'not much more')
})

test('whatever is odd in a request is for Check', async (t, gateway) => {
  const { key } = await known(t, gateway)
  const bearer = `authorization: Bearer ${key}`
  const body = '{"model":"sim","messages":[{"role":"user","content":"Hi"}]}'
  const send = (headers: readonly string[], changes: object = {}) =>
    sendRaw(
      gateway.port,
      toBytes({
        path: chatPath,
        body,
        headers: ['content-type: application/json', ...headers],
        ...changes,
      }),
    )
  for (const headers of [[bearer], [`x-api-key: ${key}`], [`Authorization: bearer ${key}`]]) {
    for (const path of [chatPath, sharedPath])
      t.equal((await send(headers, { path })).status, 200, `${headers} ${path}`)
  }
  const longest = body.replace('Hi', 'x'.repeat(2 ** 20 - body.length + 2))
  t.equal(
    (await send([bearer], { body: longest })).status,
    200,
    'as long as may be held before Check',
  )
  const streamed = longest.replace(/x{14}/, '').replace('{', '{"stream":true,')
  t.equal((await send([bearer], { body: streamed })).status, 200, 'with what the script adds to it')
  const odd: readonly (readonly [string, readonly string[], object?])[] = [
    ['shape', [bearer], { body: longest.replace('x', 'xx') }],
    ['shape', [bearer, bearer]],
    ['shape', [bearer, `x-api-key: ${key}`]],
    ['shape', [`x-api-key: ${key}`, `x-api-key: ${key}`]],
    ['shape', [`x-api-key: ${key}`, 'x-api-key: sk-other']],
    ['shape', [`authorization: Bearer ${key}, Bearer ${key}`]],
    ['shape', [`authorization: Bearer  ${key}`]],
    ['shape', [`authorization: Basic ${key}`]],
    ['shape', ['authorization: ', `x-api-key: ${key}`]],
    ['shape', [`x-api-key: Bearer ${key}`]],
    ['shape', ['authorization: Bearer token-ann']],
    ['shape', [`x-api-key: sk-${'x'.repeat(300)}`]],
    ['unknown', [`${bearer}x`]],
    ['unknown', [bearer], { path: `${chatPath}?x=1` }],
    ['unknown', [bearer], { path: '/llm/sim/v1/completions' }],
    ['unknown', [bearer], { path: sharedPath, body: body.replace('sim', 'sam') }],
    ['shape', [bearer], { path: sharedPath, body: body.replace('sim', '\\u0000') }],
    ['shape', [bearer], { path: sharedPath, body: body.replace('"sim"', '["sim"]') }],
    ['shape', [bearer], { path: sharedPath, body: `${body}}` }],
    ['shape', [bearer], { path: sharedPath, body: body.replace('{', '{"deferred":true,') }],
    ['shape', [bearer, 'transfer-encoding: chunked'], { body: '' }],
    ['shape', [bearer], { method: 'GET', body: '' }],
    ['shape', [bearer], { method: 'PUT' }],
    ['shape', [bearer], { path: '/llm/sim/v1/models', method: 'GET', body: '' }],
  ]
  for (const [reason, headers, changes] of odd) {
    const answer = await send(headers, changes)
    t.equal(answer.status, 503, `${headers} ${JSON.stringify(changes)}`)
    t.equal(missOf(answer.body), reason, `${headers} ${JSON.stringify(changes)}`)
  }
})

test('no header of a client decides whether Check is asked', async (t, gateway) => {
  const { key } = await known(t, gateway)
  const { resources } = JSON.parse(readFileSync(join(gateway.clusters, 'clusters.json'), 'utf8'))
  const cluster = resources.find(({ name }: { name: string }) => name.includes('sim')).name
  const body = '{"model":"sim","messages":[]}'
  const names = [
    'x-tollgate-cluster',
    'X-Tollgate-Cluster',
    'X-TOLLGATE-CLUSTER',
    'x-tollgate-Cluster',
  ]
  for (const path of [chatPath, sharedPath, '/llm/sim/v1/models', '/v1/completions', '/v1/files']) {
    for (const name of names) {
      for (const also of [
        [],
        [`${name}: ${cluster}`, 'x-tollgate-path: /v1/models'],
        ['x-tollgate-again: true'],
      ]) {
        const headers = [`authorization: Bearer ${key}x`, `${name}: ${cluster}`, ...also]
        const answer = await sendRaw(gateway.port, toBytes({ path, body, headers }))
        t.equal(answer.status, 503, `${path} ${headers}`)
      }
    }
  }
})

test('a table in which anything is wrong decides nothing', async (t, gateway) => {
  const { key, table: current, put, replace } = await known(t, gateway)
  const table = current()
  const { table: tableFile, lanes: lanesFile } = journalFilesOf(gateway.journal)
  const cell = windowCell()
  const { start } = cell
  const soon = bootTime() + 3_000
  const spoil = (file: string, at: number) => {
    const bytes = readFileSync(file)
    bytes[at] = (bytes[at] ?? 0) ^ 1
    writeFileSync(file, bytes)
  }
  const cases: readonly (readonly [string, string, () => void])[] = [
    ['closed', 'the table is closed', () => table.head({ lease: 0 })],
    ['closed', 'its lease is over', () => table.head({ lease: bootTime() - 50 })],
    ['closed', 'its lease is longer than any', () => table.head({ lease: bootTime() + 60_000 })],
    [
      'clock',
      'the clock was set',
      () => table.head({ lease: soon, clock: Date.now() - bootTime() + 700 }),
    ],
    [
      'clock',
      'the clock was set back',
      () => table.head({ lease: soon, clock: Date.now() - bootTime() - 700 }),
    ],
    ['stale', 'all records were withdrawn', () => table.head({ lease: soon, generation: 2 })],
    [
      'stale',
      'the record is of another generation',
      () => table.record([key, chatPath, ''], { generation: 2 }),
    ],
    [
      'stale',
      'the record is not trusted any more',
      () => table.record([key, chatPath, ''], { until: bootTime() - 20 }),
    ],
    [
      'stale',
      'the key has ended',
      () => table.record([key, chatPath, ''], { endsAt: Date.now() - 1 }),
    ],
    [
      'stale',
      'its template is not there',
      () => table.record([key, chatPath, ''], { template: 7 }),
    ],
    [
      'stale',
      'its template is nowhere',
      () => table.record([key, chatPath, ''], { template: 700 }),
    ],
    ['stale', 'its block is not there', () => table.record([key, chatPath, ''], { blocks: [3] })],
    ['stale', 'its block is nowhere', () => table.record([key, chatPath, ''], { blocks: [700] })],
    [
      'stale',
      'it has fewer blocks than limits',
      () => table.record([key, chatPath, ''], { blocks: [] }),
    ],
    [
      'window',
      'it has more blocks than limits',
      () => table.record([key, chatPath, ''], { blocks: [0, 0] }),
    ],
    ['window', 'it has more cells than limits', () => table.block(0, { cells: [cell, cell] })],
    ['stale', 'the block is withdrawn', () => table.block(0, { cells: [] })],
    [
      'limit',
      'the limit is reached',
      () => table.block(0, { cells: [{ ...cell, offset: 1_000 }] }),
    ],
    [
      'limit',
      'others count, too, and half is used',
      () => table.block(0, { isShared: true, cells: [{ ...cell, offset: 500 }] }),
    ],
    [
      'fresh',
      'what others used is not known any more',
      () => table.block(0, { freshUntil: bootTime() - 20 }),
    ],
    [
      'window',
      'the window has not begun',
      () => table.block(0, { cells: [{ ...cell, start: Date.now() + hour }] }),
    ],
    [
      'window',
      'both windows are over',
      () => table.block(0, { cells: [{ ...cell, end: start - 2, nextEnd: start - 1 }] }),
    ],
    [
      'limit',
      'the next window is used up',
      () => {
        const before = { ...cell, start: start - hour, end: start, nextEnd: start + hour }
        table.block(0, { cells: [{ ...before, nextOffset: 1_000 }] })
      },
    ],
  ]
  // Few tokens: what the polls use must not reach a limit.
  const ask = () => gateway.chat(key, { totalTokens: 1 })
  for (const [reason, title, spoilt] of cases) {
    spoilt()
    await poll(async () => (await ask()).status === 503, title, 2_000)
    const { text } = await ask()
    t.equal(missOf(text), reason, title)
    put()
    await poll(async () => (await ask()).status === 200, `after: ${title}`, 2_000)
  }
  const ends: readonly (readonly [string, string, () => void])[] = [
    ['off', 'the table is deleted', () => rmSync(tableFile)],
    ['closed', 'the table is empty', () => truncateSync(tableFile, 0)],
    ['closed', 'the table ends in its head', () => truncateSync(tableFile, 50)],
    ['closed', 'its head is spoilt', () => spoil(tableFile, 20)],
    ['closed', 'the table has another form', () => spoil(tableFile, 8)],
    ['closed', 'the table ends before its records', () => truncateSync(tableFile, 4_096)],
    ['closed', 'the lanes are truncated', () => truncateSync(lanesFile, 4_096)],
    [
      'closed',
      'the lanes are of another table',
      () => {
        writeTable(gateway.journal)
        spoil(lanesFile, 20)
      },
    ],
    [
      'closed',
      'there are no lanes',
      () => {
        writeTable(gateway.journal)
        rmSync(lanesFile)
      },
    ],
    [
      'window',
      'a lane has a later window, because the clock was set back',
      () => {
        const bytes = readFileSync(lanesFile)
        bytes.writeDoubleLE(start + hour, 4_096)
        writeFileSync(lanesFile, bytes)
      },
    ],
  ]
  for (const [reason, title, spoilt] of ends) {
    spoilt()
    await poll(async () => (await ask()).status === 503, title, 2_000)
    t.equal(missOf((await ask()).text), reason, title)
    replace()
    await poll(async () => (await ask()).status === 200, `after: ${title}`, 3_000)
  }
})
