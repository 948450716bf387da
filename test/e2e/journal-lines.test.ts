/**
 * What Envoy writes to its journal, and as lines, for unusual metadata and usage. The test implements
 * Check itself.
 */

import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { userInLines, writeLineHead, writeSubject } from '../../src/core/decision/line-head.ts'
import { writePayer } from '../../src/core/decision/payer.ts'
import { readCheckRequest } from '../../src/extauthz/check-request.ts'
import { writeHeader } from '../../src/extauthz/header.ts'
import { renderClusters } from '../../src/gateway/clusters.ts'
import { createGrpcServer } from '../../src/grpc/server.ts'
import { writeStruct } from '../../src/grpc/struct.ts'
import { WireWriter } from '../../src/grpc/wire.ts'
import { parseLine } from '../../src/ratelimit/journal/line.ts'
import { replaceFile } from '../../src/runtime/replace-file.ts'
import { startEnvoy } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { createLines } from '../support/lines.ts'
import { poll } from '../support/poll.ts'
import { startScriptedModel } from '../support/scripted-model.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const skip = envoyPath() === undefined && 'no Envoy'

type Metadata = Readonly<Record<string, string | boolean>>

/** CheckResponse: status = 1, ok_response = 3 (headers = 2), dynamic_metadata = 4. */
function allow(metadata: Metadata): Buffer {
  const writer = new WireWriter()
  writer.message(1, () => {})
  writer.message(3, (ok) => {
    writeHeader(ok, 'x-tollgate-cluster', 'llm/sim')
    writeHeader(ok, 'x-tollgate-path', '/v1/chat/completions')
  })
  writeStruct(writer, 4, metadata)
  return writer.finish()
}

const users = [
  'ann',
  'ann@example.com, of {here} [and] there\u007f',
  'o"neill',
  'back\\slash',
  '","user":"bob',
  'line\nbreak\r\n',
  '\u0000',
  '\u0001\u2028',
  'ömer, 🦊',
  '\ud800',
  '%REQ(X-REQUEST-ID)%',
  '-',
  '',
  'x'.repeat(65_536),
  `"${'x'.repeat(65_536)}`,
]
const payer =
  writePayer(
    { organizationId: 'o"\\\n&=ö\0\ud800', costCenter: 'x'.repeat(9_999), labels: {} },
    { billingRate: { perToken: '0.01' } },
  ) ?? ''
const answers: readonly object[] = [
  { usage: { total_tokens: 17, prompt_tokens: 7, completion_tokens: 10 } },
  { usage: { total_tokens: '17' } },
  { usage: { total_tokens: 1.5 } },
  { usage: { prompt_tokens: 7 } },
  { usage: null },
  {},
]

test("each metered response is one line, whatever the user's name", { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const model = await startScriptedModel()
  const checks: Metadata[] = []
  const service = createGrpcServer({
    unary: {
      '/envoy.service.auth.v3.Authorization/Check': (bytes) => {
        const index = Number(readCheckRequest(bytes).path.split('/')[2])
        return allow(checks[index] as Metadata)
      },
    },
    clientStreaming: {},
    onFault: (error) => t.error(error),
  })
  const port = await service.listen('127.0.0.1:0')
  t.teardown(() => service.stop(0))
  const clustersFile = join(folder, 'clusters.json')
  const cluster = { cluster: 'llm/sim', backendUrl: model.url }
  await replaceFile(clustersFile, renderClusters([cluster], '1'))
  const journal = join(folder, 'usage.jsonl')
  const grpc = [{ host: '127.0.0.1', port }]
  const place = join(folder, 'lines')
  mkdirSync(place)
  const folders = { script: place, envoy: place }
  const own = createLines(folders)
  own.prepare()
  const places = { clustersFile, folder, journal, lines: folders }
  const envoy = await startEnvoy(t, { grpc, api: grpc, ...places })

  const common = { subscription: 'plenty', model: 'llm/sim' }
  const expected = new Map<string, object>()
  const asked = new Map<string, { check: Metadata; figures: [string, unknown][] }>()
  async function ask(check: Metadata, answer: object): Promise<void> {
    model.answer({
      headers: { 'content-type': 'application/json' },
      pieces: [JSON.stringify(answer)],
    })
    const index = checks.length
    checks.push({ ...common, ...check, line: lineOf(index, check) })
    const url = `http://127.0.0.1:${envoy.port}/llm/${index}`
    const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body: '{}' })
    t.equal(response.status, 200)
    await response.arrayBuffer()
    const figures = Object.entries((answer as { usage?: object }).usage ?? {})
    asked.set(`request-${index}`, { check, figures })
    if (!check.metered) return
    const { usage } = answer as { usage?: object }
    expected.set(response.headers.get('x-request-id') ?? '', {
      ...common,
      user: String(check.user).toWellFormed(),
      status: 200,
      bytes: JSON.stringify(answer).length,
      reported: new Map(Object.entries(usage ?? {})),
      keyId: check.key,
      payer: check.payer,
      ...(check.group !== undefined && { group: check.group }),
      ...(check.cap !== undefined && { cap: check.cap }),
    })
  }

  for (const user of users) {
    for (const answer of answers) await ask({ user, metered: true }, answer)
    await ask({ user, metered: true, group: 'red "and" blue' }, answers[0] ?? {})
    await ask({ user, metered: true, cap: 'id-1 60000,3600000' }, answers[0] ?? {})
    await ask({ user, metered: false }, answers[0] ?? {})
    for (const answer of answers) await ask({ user, metered: true, key: 'id-1', payer }, answer)
  }
  const lines = () => readFileSync(journal, 'utf8').split('\n').slice(0, -1)
  await poll(() => lines().length >= expected.size, 'Envoy has written its lines')
  t.equal(lines().length, expected.size)
  for (const line of lines()) {
    const [usage, ...more] = parseLine(line)
    t.equal(more.length, 0)
    const { id } = usage?.response ?? { id: '' }
    t.match(usage, expected.get(id) ?? { user: `nobody of ${line}` })
    t.strictSame(usage?.reported, (expected.get(id) as { reported: object }).reported)
    t.match(JSON.parse(line), { id }, 'the line is valid JSON')
    expected.delete(id)
  }
  t.equal(expected.size, 0)

  await poll(
    () => own.ofScript().length + own.ofEnvoy().length >= asked.size,
    'all lines are there',
  )
  t.equal(own.torn(), 0)
  for (const { usage, isMetered } of [...own.ofScript(), ...own.ofEnvoy()]) {
    const { check, figures } = asked.get(usage.response.id) ?? { check: {}, figures: [] }
    t.equal(usage.user, userInLines(String(check.user)))
    t.equal(isMetered, check.metered)
    t.match(usage, { ...common, status: 200, keyId: check.key, payer: check.payer })
    // A text of the server is in no line.
    const numbers = check.metered ? figures.filter(([, figure]) => figure !== null) : []
    const told = numbers.map(([name, figure]) => [name, Number.isInteger(figure) ? figure : -1])
    t.strictSame([...usage.reported].toSorted(), told.toSorted())
    asked.delete(usage.response.id)
  }
  t.equal(asked.size, 0, 'each response has one')
})

/** As Check writes it. */
function lineOf(index: number, { user, group, cap, key, payer }: Metadata): string {
  const textOf = (value: unknown) => (value === undefined ? undefined : String(value))
  const subject = { subscription: 'plenty', model: 'llm/sim' }
  const id = `request-${index}`
  const by = 'check'
  return writeLineHead(
    {
      ...{ startedAt: Date.now(), id, by, user: String(user), keyId: String(key ?? '') },
      ...{ cap: textOf(cap), held: undefined },
    },
    writeSubject({ ...subject, group: textOf(group), payer: textOf(payer) }),
  )
}
