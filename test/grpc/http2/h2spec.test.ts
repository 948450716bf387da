/**
 * h2spec, which asks everything that RFC 9113 and RFC 7541 say of a server. It is a program in Go:
 * without Go, or where it cannot be had, this is a visible skip; connection.test.ts asks much of
 * the same by hand.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { test } from 'tap'
import { findOnPath } from '../../../src/cli/python-wheel.ts'
import { packageRoot } from '../../../src/package-root.ts'
import { startHttp2 } from '../../support/http2-server.ts'

const run = promisify(execFile)
const version = 'v2.2.1+incompatible'
const folder = join(packageRoot, '.tools', `h2spec-${version}`)
const program = join(folder, 'h2spec')

/** Why it cannot run; undefined when it can. */
async function obtain(): Promise<string | undefined> {
  if (existsSync(program)) return undefined
  const go = findOnPath('go', process.env)
  if (go === undefined) return 'no Go'
  try {
    const module = `github.com/summerwind/h2spec/cmd/h2spec@${version}`
    await run(go, ['install', module], {
      env: { ...process.env, GOBIN: folder, GOFLAGS: '-mod=mod' },
      timeout: 120_000,
    })
    return undefined
  } catch (error) {
    return `h2spec cannot be built: ${String(error).split('\n')[0]}`
  }
}

const problem = await obtain()

test('h2spec finds nothing', { skip: problem ?? false }, async (t) => {
  // It opens as many streams as it is told that it may, and one more.
  const { port, faults } = await startHttp2(t, { streams: 100 })
  const asked = ['--strict', '--host', '127.0.0.1', '--port', String(port), '--timeout', '10']
  const { stdout } = await run(program, asked, { timeout: 300_000, maxBuffer: 2 ** 24 }).catch(
    (error: { stdout?: string }) => ({ stdout: error.stdout ?? String(error) }),
  )
  t.match(stdout, /\n146 tests, 146 passed, 0 skipped, 0 failed\n/)
  t.strictSame(faults, [])
})
