import { join } from 'node:path'
import root from 'tap'
import { type Gateway, gatewayTests, meter, models, subscriptions } from '../../support/gateway.ts'
import { poll } from '../../support/poll.ts'
import { makeTemporaryFolder } from '../../support/temporary-folder.ts'
import {
  buildGoClients,
  buildRustClients,
  fetchJavaLibraries,
  hasTool,
  here,
  installPackages,
  type PythonSet,
  pythonWith,
  runForJson,
} from './libraries.ts'

const limit = 1_000_000
const test = gatewayTests({
  lists: true,
  env: { METER_PATHS: 'chat,messages,responses,completions,embeddings' },
  resources: (backendUrl) => [
    ...models(backendUrl),
    ...subscriptions({ plenty: limit, one: 1 }),
    meter,
  ],
})

/**
 * The tokens that the key's user has used, according to the gateway; the call itself costs none.
 */
async function usedBy(gateway: Gateway, key: string): Promise<number> {
  const { headers } = await gateway.chat(key, { totalTokens: 0 })
  return limit - Number(headers.get('x-ratelimit-remaining-tokens'))
}

/**
 * Runs a program that makes the usual calls of a library. Each call must work, and all must be
 * counted.
 */
function tries(
  library: string,
  prepare: () => Promise<readonly [NodeJS.ProcessEnv, string, ...string[]]>,
  /** How many requests, including retries, must reach the model server on a path. */
  requests: Readonly<Record<string, number>> = {},
): void {
  test(`${library} works, and all its calls are counted`, async (t, gateway) => {
    const [env, ...line] = await prepare()
    const [good, spent] = [await gateway.mint(), await gateway.mint({ subscription: 'one' })]
    await gateway.chat(spent.key, { totalTokens: 1 })
    await poll(() => gateway.isSpent(spent.key), 'the limit of one token is reached')
    const before = await gateway.model.tally()
    const found = await runForJson(line, {
      ...env,
      BASE_URL: gateway.url,
      KEY: good.key,
      SPENT_KEY: spent.key,
      WRONG_KEY: `${good.key.slice(0, -1)}${good.key.endsWith('0') ? '1' : '0'}`,
    })
    for (const [name, result] of Object.entries(found)) t.equal(result, 'ok', name)
    const after = await gateway.model.tally()
    const said = after.totalTokens - before.totalTokens
    t.ok(said > 0)
    await poll(async () => (await usedBy(gateway, good.key)) === said, `${said} tokens are counted`)
    for (const [path, expected] of Object.entries(requests)) {
      t.equal((after.requests[path] ?? 0) - (before.requests[path] ?? 0), expected, path)
    }
  })
}

function python(library: string, set: PythonSet, requests?: Record<string, number>): void {
  const program = join(here, 'clients.py')
  tries(library, async () => [await pythonWith(set), 'python3', program, library], requests)
}

python('openai', 'clients', { '/v1/chat/completions': 7 })
python('anthropic', 'clients', { '/v1/messages': 6 })
python('langchain', 'clients')
python('pydantic-ai', 'clients')
python('openai-agents', 'clients')
python('llama-index', 'llama-index')
python('litellm', 'litellm')
tries("Vercel's ai", async () => {
  installPackages()
  return [process.env, process.execPath, join(here, 'vercel.js')]
})

/** Tries clients if their toolchain is there. */
function compiled(
  library: string,
  tool: readonly [program: string, argument: string],
  prepare: (folder: string) => Promise<readonly [string, ...string[]]>,
): void {
  if (!hasTool(...tool)) {
    root.test(library, { skip: `${tool[0]} is not on PATH` }, async () => {})
    return
  }
  const { path, remove } = makeTemporaryFolder()
  process.once('exit', remove)
  tries(library, async () => [process.env, ...(await prepare(path))])
}

compiled('openai-go and anthropic-sdk-go', ['go', 'version'], async (folder) => [
  await buildGoClients(folder),
])
compiled('async-openai', ['cargo', '--version'], async (folder) => [await buildRustClients(folder)])
compiled("Java's HttpClient", ['javac', '-version'], async () => [
  'java',
  join(here, 'java', 'HttpClients.java'),
])
compiled('openai-java and anthropic-java', ['mvn', '--version'], async (folder) => [
  'java',
  '-cp',
  await fetchJavaLibraries(folder),
  join(here, 'java', 'Libraries.java'),
])
