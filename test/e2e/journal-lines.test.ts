/** What the gateway writes as lines for unusual metadata and usage, and when Envoys change. The test implements Check itself. */

import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { writeHeader } from '../../src/extauthz/allow-template.ts'
import { readCheckRequest } from '../../src/extauthz/check-request.ts'
import { joinClusters, renderCluster } from '../../src/gateway/clusters.ts'
import { createGrpcServer } from '../../src/grpc/server.ts'
import { writeStruct } from '../../src/grpc/struct.ts'
import { WireWriter } from '../../src/grpc/wire.ts'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import type { JournalLine } from '../../src/journal/journal-line.ts'
import { prepareFolder } from '../../src/journal/prepare-folder.ts'
import { formatPayer } from '../../src/models/rules/payer.ts'
import { userInLines } from '../../src/ratelimit/rules/counter-key.ts'
import { replaceFile } from '../../src/runtime/replace-file.ts'
import { formatSubject } from '../../src/usage/rules/line-head.ts'
import { startEnvoy } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { freePorts } from '../support/free-ports.ts'
import { writeLineHead } from '../support/line-head.ts'
import { idsOf, linesOf } from '../support/lines.ts'
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
  formatPayer(
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

/** What an Envoy needs whose Checks the test answers with these, each for its number in the path. */
async function startWorld(t: Test) {
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
    onFault: (error) => t.error(error),
  })
  const port = await service.listen('127.0.0.1:0')
  t.teardown(() => service.stop(0))
  const clustersFile = join(folder, 'clusters.json')
  const cluster = { cluster: 'llm/sim', backendUrl: model.url }
  await replaceFile(clustersFile, joinClusters([renderCluster(cluster)], '1'))
  const grpc = [{ host: '127.0.0.1', port }]
  const place = join(folder, 'lines')
  const journal = join(place, 'usage.jsonl')
  const [own, files] = [linesOf(journal), journalFilesOf(journal)]
  prepareFolder(files, 0o600)
  return {
    model,
    checks,
    own,
    files,
    folder,
    places: { grpc, api: grpc, clustersFile, lines: files },
  }
}

test("each response has one line, whatever the user's name", { skip }, async (t) => {
  const { model, checks, own, files, folder, places } = await startWorld(t)
  const envoy = await startEnvoy(t, { ...places, folder })

  const asked = new Map<string, { check: Metadata; figures: [string, unknown][] }>()
  async function ask(check: Metadata, answer: object): Promise<void> {
    model.answer({
      headers: { 'content-type': 'application/json' },
      pieces: [JSON.stringify(answer)],
    })
    const index = checks.length
    checks.push({ ...check, line: lineOf(index, check) })
    const url = `http://127.0.0.1:${envoy.port}/llm/${index}`
    const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body: '{}' })
    t.equal(response.status, 200)
    await response.arrayBuffer()
    const figures = Object.entries((answer as { usage?: object }).usage ?? {})
    asked.set(`request-${index}`, { check, figures })
  }

  async function askAll(): Promise<void> {
    for (const user of users) {
      for (const answer of answers) await ask({ user, metered: true }, answer)
      await ask({ user, metered: true, group: 'red "and" blue' }, answers[0] ?? {})
      await ask({ user, metered: true, cap: 'id-1 60000,3600000' }, answers[0] ?? {})
      await ask({ user, metered: false }, answers[0] ?? {})
      for (const answer of answers) await ask({ user, metered: true, key: 'id-1', payer }, answer)
    }
  }
  const all = () => [...own.ofScript(), ...own.ofEnvoy()]
  function compare(lines: readonly JournalLine[]): void {
    for (const { usage, isMetered } of lines) {
      const { id } = usage.response
      const { check, figures } = asked.get(id) ?? { check: {}, figures: [] }
      t.equal(usage.user, userInLines(String(check.user)))
      t.equal(isMetered, check.metered)
      const { group, cap, key: keyId, payer } = check
      t.match(usage, { subscription: 'plenty', model: 'llm/sim', status: 200 })
      t.match(usage, { group, keyCounters: cap, keyId, payer })
      // A text of the server is in no line.
      const numbers = check.metered ? figures.filter(([, figure]) => figure !== null) : []
      const told = numbers.map(([name, figure]) => [name, Number.isInteger(figure) ? figure : -1])
      t.strictSame([...usage.reported].toSorted(), told.toSorted())
      t.ok(asked.delete(id), 'it is the only one')
    }
    t.equal(asked.size, 0, 'each response has one')
    t.equal(own.torn(), 0)
  }
  await askAll()
  await poll(() => all().length >= asked.size, 'all lines are there')
  t.ok(own.ofScript().length > 0 && own.ofEnvoy().length > 0, 'both write')
  compare(all())

  // Once nothing can be written to the script's file, Envoy's log has the same of each.
  const before = own.ofEnvoy().length
  rmSync(files.script)
  await delay(1_100)
  await askAll()
  await poll(() => own.ofEnvoy().length >= before + asked.size, 'all lines are there')
  compare(own.ofEnvoy().slice(before))
  t.equal(envoy.log(), '')
})

test('two Envoys share a folder, one after the other', { skip }, async (t) => {
  const { model, checks, own, folder, places } = await startWorld(t)
  model.answer({
    headers: { 'content-type': 'application/json' },
    pieces: ['{"usage":{"total_tokens":3}}'],
  })
  const baseId = 100 + (process.pid % 30_000)
  const [port = 0] = await freePorts(1)
  const run = (epoch: number) => {
    const its = join(folder, `epoch-${epoch}`)
    mkdirSync(its)
    const hotRestart = { baseId, epoch }
    return startEnvoy(t, { ...places, folder: its, port, hotRestart, concurrency: 2 })
  }
  const first = await run(0)
  let over = false
  let got = 0
  const failed: unknown[] = []
  const caller = async (): Promise<void> => {
    while (!over) {
      const index = checks.push({ user: 'ann', metered: true }) - 1
      checks[index] = { ...checks[index], line: lineOf(index, { user: 'ann' }) }
      const url = `http://127.0.0.1:${port}/llm/${index}/v1/chat/completions`
      await fetch(url, { method: 'POST', body: '{}' })
        .then(async (response) => {
          await response.arrayBuffer()
          if (response.status === 200) got += 1
          else failed.push(response.status)
        })
        .catch((error) => failed.push(String(error)))
      // Often enough that some are under way whenever one takes over; without it, the load would be all of the processors.
      await delay(10)
    }
  }
  const load = Promise.all([caller(), caller(), caller(), caller()])
  for (const epoch of [1, 2]) {
    await delay(500)
    await run(epoch)
    await delay(3_000)
  }
  over = true
  await load
  t.throws(() => process.kill(first.pid, 0), 'the first one has ended')
  const ids = idsOf(own.ended())
  t.equal(new Set(ids).size, ids.length, 'none has two lines')
  t.ok(ids.length >= got && got > 100, `${got} answers have ${ids.length} lines`)
  t.ok(ids.length <= got + failed.length, `${failed.length} failed`)
  t.equal(own.torn(), 0)
  t.equal(own.failed(), 0)
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
      ...{ keyCounters: textOf(cap), held: undefined },
    },
    formatSubject({ ...subject, group: textOf(group), payer: textOf(payer) }),
  )
}
