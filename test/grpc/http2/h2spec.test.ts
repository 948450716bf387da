/**
 * Runs h2spec, which tests servers for the requirements of RFC 9113 and RFC 7541. It is a Go
 * program: if it cannot be built, the test is skipped visibly. connection.test.ts covers much of
 * the same.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { test } from 'tap'
import { findOnPath } from '../../../dev/python-wheel.ts'
import { packageRoot } from '../../../src/runtime/package-root.ts'
import { goBuildEnv } from '../../support/go-build.ts'
import { startHttp2 } from '../../support/http2-server.ts'

const run = promisify(execFile)
const version = 'v2.2.1+incompatible'
const folder = join(packageRoot, '.tools', `h2spec-${version}`)
const program = join(folder, 'h2spec')

/** Why h2spec is missing; undefined if it is available. */
async function obtain(): Promise<string | undefined> {
  if (existsSync(program)) return undefined
  const go = findOnPath('go', process.env)
  if (go === undefined) return 'no Go'
  try {
    const module = `github.com/summerwind/h2spec/cmd/h2spec@${version}`
    await run(go, ['install', module], {
      env: { ...goBuildEnv(process.env, ['-mod=mod']), GOBIN: folder },
      timeout: 120_000,
    })
    return undefined
  } catch (error) {
    return `h2spec cannot be built: ${String(error).split('\n')[0]}`
  }
}

const problem = await obtain()

test('h2spec passes', { skip: problem ?? false }, async (t) => {
  // It opens as many streams as the server allows, and one more.
  const { port, faults } = await startHttp2(t, { streams: 100 })
  const asked = ['--strict', '--host', '127.0.0.1', '--port', String(port), '--timeout', '10']
  const { stdout } = await run(program, asked, { timeout: 300_000, maxBuffer: 2 ** 24 }).catch(
    (error: { stdout?: string }) => ({ stdout: error.stdout ?? String(error) }),
  )
  t.match(stdout, /\n146 tests, 146 passed, 0 skipped, 0 failed\n/)
  t.strictSame(faults, [])
})
