import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { chooseModels } from '../../dev/choose-models.ts'
import { inMemory } from '../../dev/journal-place.ts'
import { readUpSettings } from '../../dev/up-settings.ts'
import { sampleResourceFolder } from '../../src/settings/sample.ts'
import { freePorts } from '../support/free-ports.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const model = (url: string) => `
apiVersion: tollgate.dev/v1alpha1
kind: ModelRef
metadata: { name: mine, namespace: llm }
spec: { modelRef: { kind: LLMInferenceService, name: mine }, backendUrl: ${url} }
`

/** A folder that leaves no journal in memory. */
function dataFolder(t: Test): string {
  const path = temporaryFolder(t)
  t.teardown(() => {
    for (const each of inMemory(path)) rmSync(each, { recursive: true, force: true })
  })
  return path
}

/** The choice where the sample model server usually listens on `port`, which no setting names. */
async function choose(t: Test, port: number, more: Record<string, string> = {}) {
  const read = readUpSettings({ DATA_DIR: dataFolder(t), ...more })
  const modelServerAddress = { host: '127.0.0.1', port }
  const said: string[] = []
  const settings = { ...read, config: { ...read.config, modelServerAddress } }
  return { ...(await chooseModels(settings, (line) => void said.push(line))), said, settings }
}

async function takePort(t: Test): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  return (server.address() as { port: number }).port
}

test('the sample moves to a free port, its resources with it', async (t) => {
  const taken = await takePort(t)
  for (const port of [taken, 0]) {
    const { resourceFolder = '', modelServerAddress, settings } = await choose(t, port)
    t.equal(resourceFolder, join(settings.config.dataDir, 'sample-resources'))
    t.not(modelServerAddress?.port, port)
    const text = readFileSync(join(resourceFolder, 'models.yaml'), 'utf8')
    t.match(text, `backendUrl: http://127.0.0.1:${modelServerAddress?.port}\n`)
  }
  const { config } = readUpSettings({ DATA_DIR: dataFolder(t) })
  t.equal(config.resourceFolder, sampleResourceFolder)
  t.equal(config.paths.metered.size, 5, 'and all that it has is counted')
})

test("the sample model server is started for one's own resources only if they name it", async (t) => {
  const [free = 0] = await freePorts(1)
  const taken = await takePort(t)
  const at = (port: number) => ({
    RESOURCES: `file:${temporaryFolder(t, { 'm.yaml': model(`http://127.0.0.1:${port}`) })}`,
  })
  const named = await choose(t, free, at(free))
  t.strictSame(named.modelServerAddress, { host: '127.0.0.1', port: free })
  t.equal(named.resourceFolder, named.settings.config.resourceFolder)
  t.equal(named.settings.config.paths.metered.size, 1)
  t.equal((await choose(t, free, at(9))).modelServerAddress, undefined)
  t.equal((await choose(t, taken, at(9))).modelServerAddress, undefined)

  const own = await choose(t, taken, at(taken))
  t.equal(own.modelServerAddress, undefined)
  t.strictSame(own.said, [`127.0.0.1:${taken} is in use, so a model server of yours answers there`])
  const MODEL_SERVER_ADDRESS = `127.0.0.1:${taken}`
  await t.rejects(choose(t, taken, { ...at(taken), MODEL_SERVER_ADDRESS }), {
    message: new RegExp(`:${taken} \\(MODEL_SERVER_ADDRESS\\) is already in use`),
  })
})

test('a name at which Envoy cannot listen is refused before anything starts', async (t) => {
  const read = (address: string) =>
    readUpSettings({
      DATA_DIR: dataFolder(t),
      GATEWAY_ADDRESS: address,
      TOKEN_AUTH_FILE: import.meta.filename,
    })
  t.throws(() => read('gateway.example:8000'), /GATEWAY_ADDRESS: Envoy listens at an IP address/)
  t.equal(read('localhost:8000').config.gatewayUrl, 'http://localhost:8000')
})
