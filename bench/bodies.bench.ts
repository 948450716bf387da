/**
 * `npm test -- bench/bodies.bench.ts`: what request and response bodies cost a real Envoy, in CPU
 * time of its process per MiB, and how much a caller without a valid credential can make it spend.
 */

import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { test } from 'tap'
import { accessPolicy, modelRef, subscription } from '../test/support/documents.ts'
import { startGateway } from '../test/support/gateway.ts'
import { startScriptedModel } from '../test/support/scripted-model.ts'

const MiB = 2 ** 20
const fill = (text: string, bytes: number) => text.repeat(Math.ceil(bytes / text.length))

/** Bodies of about four MiB, by their content. */
const kinds: Readonly<Record<string, string>> = {
  text: `"${fill('hello world ', 4 * MiB)}"`,
  'text in Chinese': `"${fill('\u4e2d\u6587', (4 * MiB) / 3)}"`,
  escapes: `"${fill('\\n\\u0041', 4 * MiB)}"`,
  messages: `[${fill('{"role":"user","content":"hello you","name":"x"},', 4 * MiB)}1]`,
  'empty arrays': `[${fill('[],', 4 * MiB)}1]`,
  'small objects': `[${fill('{"a":1},', 4 * MiB)}1]`,
  numbers: `[${fill('1,', 4 * MiB)}1]`,
  'names, all different': `{${Array.from({ length: 380_000 }, (_, i) => `"k${i}":1`).join(',')}}`,
}

test('bodies', async (t) => {
  const scripted = await startScriptedModel()
  const gateway = await startGateway(t, {
    resources: () => [
      modelRef('sim', { backendUrl: scripted.url }),
      accessPolicy('open', ['llm/sim'], { groups: ['team'] }),
      subscription('plenty', { groups: ['team'] }, { 'llm/sim': [[1_000_000_000, '1h']] }),
    ],
  })
  const stat = () => readFileSync(`/proc/${gateway.envoy.pid}/stat`, 'utf8').split(' ')
  const cpuMs = () => (Number(stat()[13]) + Number(stat()[14])) * 10
  const rssMiB = () => (Number(stat()[23]) * 4_096) / MiB
  const { key } = await gateway.mint()
  const path = '/v1/chat/completions'
  const rows: string[] = []

  async function measure(name: string, times: number, bytes: number, run: () => Promise<unknown>) {
    await run()
    const before = cpuMs()
    for (let i = 0; i < times; i += 1) await run()
    const each = (cpuMs() - before) / times
    const size = bytes / MiB
    rows.push(
      `| ${name} | ${size.toFixed(1)} | ${each.toFixed(1)} | ${(each / size).toFixed(1)} | ${rssMiB().toFixed(0)} |`,
    )
  }

  scripted.answer({ headers: { 'content-type': 'application/json' }, pieces: ['{}'] })
  for (const [name, value] of Object.entries(kinds)) {
    const body = `{"model":"sim","messages":[],"a":${value}}`
    await measure(`request of ${name}`, 10, Buffer.byteLength(body), () =>
      gateway.ask(path, key, { method: 'POST', body }),
    )
  }
  for (const name of ['text', 'small objects'] as const) {
    const answer = `{"a":${kinds[name]},"usage":{"total_tokens":1}}`
    scripted.answer({ headers: { 'content-type': 'application/json' }, pieces: [answer] })
    await measure(`answer of ${name}`, 10, Buffer.byteLength(answer), () =>
      gateway.chat(key, {}, {}, path),
    )
  }
  const announced = 32 * MiB - 1
  await measure(
    '32 MiB announced by nobody known',
    50,
    announced,
    () =>
      new Promise((settle) => {
        const socket = connect(gateway.port, '127.0.0.1')
        socket.on('error', () => {})
        socket.on('close', settle)
        socket.once('data', () => socket.destroy())
        socket.write(
          `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer nonsense\r\ncontent-length: ${announced}\r\n\r\n{"a":`,
        )
      }),
  )
  t.comment('| what | MiB | CPU ms | CPU ms a MiB | Envoy MiB |')
  for (const row of rows) t.comment(row)
})
