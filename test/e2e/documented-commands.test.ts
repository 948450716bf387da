import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { PACKAGE_ROOT } from '../../src/package-root.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ownSettings, runTollgate } from '../support/tollgate.ts'

const skip = envoyPath() === undefined && 'no Envoy'

/** A shell block of a document, and the block after it if that shows what it prints. */
interface Example {
  readonly commands: string
  /** `…` stands for anything. */
  readonly prints: string | undefined
}

function examplesOf(document: string): readonly Example[] {
  const text = readFileSync(join(PACKAGE_ROOT, document), 'utf8')
  const blocks = text.matchAll(/^```sh\n(.*?)^```$(?:\n+^```(?:json|text)\n(.*?)^```$)?/gms)
  return [...blocks].map(([, commands = '', prints]) => ({ commands, prints }))
}

function isLike(printed: string, shown: string): boolean {
  const parts = shown.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('[^\\n]*?')}$`).test(printed)
}

test('commands of the documents print what the documents say', { skip }, async (t) => {
  const settings = await ownSettings(temporaryFolder(t))
  const { GATEWAY_ADDRESS = '', INTERNAL_ADDRESS = '' } = settings
  await runTollgate(t, ['up'], settings).until('Ctrl-C stops everything.')
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
  const env: NodeJS.ProcessEnv = {
    ...{ PATH, HOME, NODE_COMPILE_CACHE, KEY: '', ID: '' },
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
        cwd: PACKAGE_ROOT,
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
      // A later block goes on with what an earlier one has made.
      env.KEY = /sk-tg-\w+_\w+/.exec(stdout)?.[0] ?? env.KEY
      env.ID = /"id":"([\da-f-]{36})"/.exec(stdout)?.[1] ?? env.ID
    }
  }
  t.ok(shown >= 4)
})
