import { execFile, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { test } from 'tap'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { startScriptedModel } from '../support/scripted-model.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ownSettings, processesOf, runTollgate } from '../support/tollgate.ts'

const skip = envoyPath() === undefined && 'no Envoy'

/** A shell block of a document, and the block after it if that shows the output. */
interface Example {
  readonly commands: string
  /** `…` matches anything. */
  readonly prints: string | undefined
}

function examplesOf(document: string): readonly Example[] {
  const text = readFileSync(join(packageRoot, document), 'utf8')
  const blocks = text.matchAll(/^```sh\n(.*?)^```$(?:\n+^```(?:json|text)\n(.*?)^```$)?/gms)
  return [...blocks].map(([, commands = '', prints]) => ({ commands, prints }))
}

function isLike(printed: string, shown: string): boolean {
  const parts = shown.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('[^\\n]*?')}$`).test(printed)
}

test('the documented commands print the documented output', { skip }, async (t) => {
  const settings = await ownSettings(temporaryFolder(t))
  const { GATEWAY_ADDRESS = '', INTERNAL_ADDRESS = '' } = settings
  await runTollgate(t, ['up'], settings).until('Ctrl-C stops everything.')
  const { PATH, HOME } = process.env
  const env: NodeJS.ProcessEnv = {
    ...{ PATH, HOME, KEY: '', ID: '' },
    ...{ TOLLGATE_URL: `http://${GATEWAY_ADDRESS}`, TOLLGATE_TOKEN: 'alice-token' },
  }
  let shown = 0
  for (const document of ['docs/use.md', 'docs/models-and-quotas.md', 'docs/contract.md']) {
    for (const { commands, prints } of examplesOf(document)) {
      const script = commands
        .replaceAll('127.0.0.1:8000', GATEWAY_ADDRESS)
        .replaceAll('127.0.0.1:8081', INTERNAL_ADDRESS)
        .replaceAll('curl ', 'curl -sS ')
      const { status, stdout, stderr } = spawnSync('sh', ['-ec', script], {
        cwd: packageRoot,
        env,
        encoding: 'utf8',
      })
      t.equal(status, 0, `${document}: ${commands.slice(0, 60)}`)
      if (status !== 0) t.comment(script, stdout, stderr)
      if (prints !== undefined) {
        shown += 1
        const isShown = isLike(stdout.trim(), prints.trim())
        t.ok(isShown, document)
        if (!isShown) t.comment(script, stdout)
      }
      // A later block uses the key of an earlier one.
      env.KEY = /sk-tg-\w+_\w+/.exec(stdout)?.[0] ?? env.KEY
      env.ID = /"id":"([\da-f-]{36})"/.exec(stdout)?.[1] ?? env.ID
    }
  }
  t.ok(shown >= 4)
})

test("the first steps lead to an answer of one's own model", { skip }, async (t) => {
  const model = await startScriptedModel()
  const answer = '{"object":"chat.completion","choices":[],"usage":{"total_tokens":7}}'
  model.answer({ headers: { 'content-type': 'application/json' }, pieces: [answer] })
  const own = await ownSettings(temporaryFolder(t))
  const { DATA_DIR = '', ENVOY_PATH = '', GATEWAY_ADDRESS = '' } = own
  const cwd = temporaryFolder(t)
  const { PATH, HOME } = process.env
  const run = async ({ commands }: Example): Promise<string> => {
    const script = commands
      .replaceAll('bin/tollgate', join(packageRoot, 'bin', 'tollgate'))
      .replaceAll('http://127.0.0.1:9000', model.url)
      .replaceAll('127.0.0.1:8000', GATEWAY_ADDRESS)
      .replaceAll('curl ', 'curl -sS ')
    const env = { PATH, HOME }
    // Not execFileSync: the model runs in this process.
    return (await promisify(execFile)('sh', ['-ec', script], { cwd, env })).stdout
  }
  const blocks = examplesOf('docs/start.md')
  t.equal(blocks.length, 3)
  const [describe, identify, call] = blocks as [Example, Example, Example]
  t.match(await run(describe), '3 resources, 0 problems')
  await run(identify)
  const RESOURCES = `file:${join(cwd, 'own')}`
  const TOKEN_AUTH_FILE = join(cwd, 'own', 'tokens.csv')
  const tollgate = runTollgate(t, ['up'], {
    ...{ DATA_DIR, ENVOY_PATH, GATEWAY_ADDRESS, RESOURCES, TOKEN_AUTH_FILE },
  })
  await tollgate.until('Ctrl-C stops everything.')
  t.match(tollgate.output(), 'Make a key with an identity token of yours')
  t.match(
    tollgate.output(),
    /counted: \/v1\/chat\/completions; open and not counted: \/v1\/messages/,
  )
  t.notOk(
    processesOf(DATA_DIR)['model-server'],
    'the resources do not name the sample model server',
  )
  t.equal(await run(call), answer)
  t.match(model.received[0]?.body, '"name-at-the-server"', 'which a strict server knows')
})
