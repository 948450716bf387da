import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { gatewayTests } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

const llamaCpp = await startScriptedModel()
const team = { groups: ['team'] }
const hour = [[1_000_000, '1h']] as const
const shared = '/v1/chat/completions'
const models = ['llm/one', 'llm/two', 'llm/named', 'llm/renamed']
const test = gatewayTests({
  lists: true,
  resources: (backendUrl) => [
    modelRef('one', { backendUrl }),
    modelRef('named', { backendUrl, modelIds: ['sim-large'] }),
    modelRef('renamed', { backendUrl, upstreamModel: 'sim-large' }),
    accessPolicy('open', models, team),
    subscription('plenty', team, Object.fromEntries(models.map((key) => [key, hour]))),
  ],
})

test('every listed name is callable, and unlisted names of a server too', async (t, gateway) => {
  const { key } = await gateway.mint()
  const statusOf = async (model: string) => (await gateway.chat(key, {}, { model }, shared)).status
  await poll(async () => (await statusOf('sim-small')) === 200, 'not listed yet')
  t.equal(await statusOf('sim-huge'), 403)
  const list = await gateway.ask('/v1/models', key)
  const listed: { id: string; owned_by: string }[] = JSON.parse(list.text).data
  t.strictSame(
    listed.map(({ id, owned_by }) => `${id} of ${owned_by}`),
    [
      'renamed of llm/renamed',
      'sim-large of llm/named',
      'sim-large of llm/one',
      'sim-small of llm/one',
    ],
  )
  for (const { id } of listed) t.equal(await statusOf(id), 200, id)
  const { text } = await gateway.chat(key, { echo: true }, { model: 'sim-large' }, shared)
  t.equal(JSON.parse(JSON.parse(text).sim_echo.body).model, 'sim-large')
})

test('what a name meant is withdrawn with the list', async (t, gateway) => {
  const { key } = await gateway.mint()
  const ask = async (model: string) => (await gateway.chat(key, {}, { model }, shared)).status
  const listing = (...ids: string[]) =>
    llamaCpp.answer({
      pieces: [JSON.stringify({ data: ids.map((id) => ({ id })), usage: { total_tokens: 3 } })],
    })
  listing('two-a')
  gateway.put('two.yaml', [modelRef('two', { backendUrl: `${llamaCpp.url}/two` })])
  await poll(async () => (await ask('two-a')) === 200, 'its names are known')
  // Decided by the table from then on.
  for (let i = 0; i < 10; i += 1) t.equal(await ask('two-a'), 200)
  listing('sim-small', 'two-b')
  const { text } = await gateway.ask('/v1/models', key)
  t.equal(await ask('two-a'), 403, 'the list no longer has it')
  t.equal(await ask('two-b'), 200)
  t.equal(await ask('sim-small'), 400, 'now two list it')
  t.equal(await ask('sim-large'), 200, 'a configured name takes precedence')
  const listed: { id: string; owned_by: string }[] = JSON.parse(text).data
  const idsOf = (model: string) =>
    listed.flatMap(({ id, owned_by }) => (owned_by === model ? [id] : []))
  t.strictSame(idsOf('llm/two'), ['publishers/llm/models/two', 'two-b'])
  t.strictSame(idsOf('llm/one'), ['publishers/llm/models/one', 'sim-large'])
  for (const { id } of listed) t.equal(await ask(id), 200, id)
})

test("one answer only is taken of llama.cpp's server, unless its ModelRef says otherwise", async (t, gateway) => {
  const list = '"data":[{"id":"tiny.gguf","owned_by":"llamacpp"}]'
  llamaCpp.answer({ pieces: [`{${list},"choices":[],"usage":{"total_tokens":3}}`] })
  const { url: backendUrl } = llamaCpp
  const names = ['tiny', 'counted'].map((name) => `llm/${name}`)
  gateway.put('llama.yaml', [
    modelRef('tiny', { backendUrl }),
    modelRef('counted', { backendUrl, output: { usageOfAllAnswers: true } }),
    accessPolicy('llama', names, team),
    subscription('llama', team, Object.fromEntries(names.map((key) => [key, hour]))),
  ])
  await poll(() => gateway.mint({ subscription: 'llama' }).then(Boolean, () => false), 'in force')
  const { key } = await gateway.mint({ subscription: 'llama' })
  const ask = async (at: string, n: number, model = 'tiny') =>
    (await gateway.chat(key, {}, { model, n }, at)).status
  const path = '/llm/tiny/v1/chat/completions'
  await poll(async () => (await ask(path, 2)) === 400, 'it is recognised')
  t.equal(await ask(path, 1), 200)
  t.equal(await ask(shared, 2), 400)
  t.equal(await ask(shared, 1), 200)
  t.equal(await ask(path.replace('tiny', 'counted'), 2), 200)
})
