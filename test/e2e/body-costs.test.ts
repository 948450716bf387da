import { residentMiB, timesPlain } from '../support/envoy-load.ts'
import { gatewayTests } from '../support/gateway.ts'

const test = gatewayTests()
/** Here the sample server answers 404 whatever the body contains. */
const path = '/llm/sim/v1/rerank'

const size = 2 ** 18
/** Repeats a text up to about the size. */
const fill = (text: string, bytes = size): string => text.repeat(Math.ceil(bytes / text.length))
const bodyOf = (value: string): string => `{"x":${value}}`
const listOf = (item: string): string => bodyOf(`[${fill(`${item},`)}0]`)
const plain = listOf('{"role":"user","content":"How are you?"}')

/** Bodies of the same length, each of whatever makes some part of the script work most. */
const bodies: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    [
      ...['1e300', '1e308', '1e-300', '1.79769e308', '-0.0000001e-300', '1E+0000300', '1.5e-05'],
      ...['9'.repeat(308), `0.${'0'.repeat(300)}1`, `1e${'0'.repeat(300)}`],
      ...['1', '""', '[]', '{}', '[1]', '{"a":1}', '"\\n"', '"\\u4e2d"', '"\u00e9"', 'null'],
      ...[`1${' '.repeat(301)}`, `${'['.repeat(90)}${']'.repeat(90)}`],
      `{${fill('"nnnnn":', 8)}1}`,
      ...['{"file_id":null}', '{"call_id":1}', '{"container":{}}', '{"Input-File-ID":null}'],
    ].map((item) => [`items ${item.slice(0, 12)}`, listOf(item)]),
  ),
  'one number': bodyOf(`0.${'0'.repeat(size)}`),
  'one exponent': bodyOf(`1e-${'0'.repeat(size)}9`),
  'one name of escapes': bodyOf(`{"${fill('\\n')}":1}`),
  'one name of units': bodyOf(`{"${fill('\\u0041')}":1}`),
  'names beyond ASCII': bodyOf(`[${fill('{"\u00e9":1},', 72_000)}"${fill('x', size - 72_000)}"]`),
  'names with escapes': bodyOf(`[${fill('{"\\n":1},', 72_000)}"${fill('x', size - 72_000)}"]`),
  extra_body: `{"extra_body":{"x":[${fill('{"file_id":null},')}0]}}`,
  'reasoning of the input': `{"input":[${fill('{"type":"reasoning","id":"","content":"x"},')}0]}`,
  'items of the input': `{"input":[${fill('{"type":"x","id":""},')}0]}`,
  'tools with a model': `{"tools":[${fill('{"model":null},')}0]}`,
  'names with escapes of fields': bodyOf(
    `[${fill('{"\\u0066ile_id":[]},', 160_000)}"${fill('x', size - 160_000)}"]`,
  ),
  'names as long as fields': `{${Array.from({ length: size / 10 }, (_, i) => `"${i.toString(16).padStart(5, 'm')}":1`).join(',')}}`,
}

test('no body costs more than five times a plain one', async (t, gateway) => {
  const { key } = await gateway.mint()
  const send = (body: string) => async () => {
    const { status } = await gateway.ask(path, key, { method: 'POST', body })
    if (status !== 404) throw new Error(`${status} for ${body.slice(0, 40)}`)
  }
  const others = Object.fromEntries(
    Object.entries(bodies).map(([name, body]) => [name, send(body)]),
  )
  const times = await timesPlain(gateway.envoy.pid, send(plain), others, 5)
  for (const [name, ratio] of times) t.ok(ratio <= 5, `${name}: ${ratio.toFixed(1)} times`)
})

test('an object has no more names than fit into the memory of the scripts', async (t, gateway) => {
  const { key } = await gateway.mint()
  const names = Array.from({ length: 262_200 }, (_, i) => `"_${i}":1`)
  const send = (value: string) =>
    gateway.ask(path, key, { method: 'POST', body: bodyOf(`{${value}}`) })
  const some = names.slice(0, 262_140).join(',')
  t.equal((await send(some)).status, 404, 'the model gets it')
  t.equal((await send(`"a":{${some}},"b":{${some}}`)).status, 404, 'one after the other')
  const few = names.slice(0, 140_000).join(',')
  for (const value of [names.join(','), `${few},"a":{${few}}`]) {
    const { status, text } = await send(value)
    t.equal(status, 400)
    t.match(text, /an object has too many names/)
  }
})

test('bodies with large objects leave no memory behind', async (t, gateway) => {
  const { key } = await gateway.mint()
  const names = Array.from({ length: 150_000 }, (_, i) => `"${i.toString(36)}":1`).join(',')
  const send = (levels: number) =>
    gateway.ask(path, key, {
      method: 'POST',
      body: bodyOf(`${'['.repeat(levels)}{${names}}${']'.repeat(levels)}`),
    })
  t.equal((await send(1)).status, 404, 'the model gets it')
  const before = residentMiB(gateway.envoy.pid)
  // Each has its object at another level.
  for (let levels = 2; levels < 32; levels += 1) await send(levels)
  const grown = residentMiB(gateway.envoy.pid) - before
  t.ok(grown < 64, `${grown.toFixed(0)} MiB`)
})
