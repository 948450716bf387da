import { execFile, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { test } from 'tap'
import { serve } from '../../src/main.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { createDatabase } from '../support/database.ts'
import { goBuildEnv } from '../support/go-build.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const run = promisify(execFile)
const skip = spawnSync('go', ['version']).status !== 0 && 'no Go'
const anyPort = '127.0.0.1:0'

/** The checks are in bench/go/client; its modules are downloaded once from the Go proxy. */
test('a Go gRPC client gets correct responses', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const client = join(folder, 'client')
  const build = ['build', '-o', client, './client']
  const where = { cwd: join(packageRoot, 'bench', 'go'), env: goBuildEnv(process.env) }
  const problem = await run('go', build, where).then(
    () => undefined,
    (error: Error & { stderr: string }) => error,
  )
  if (problem !== undefined) {
    const isUnavailable = /dial tcp|no such host|timeout|connection refused/i.test(problem.stderr)
    if (!isUnavailable) throw problem
    t.pass('checks of the Go client', { skip: 'the Go module proxy is unavailable' })
    return
  }
  const service = await serve({
    API_ADDRESS: anyPort,
    INTERNAL_ADDRESS: anyPort,
    GRPC_ADDRESS: anyPort,
    METRICS_ADDRESS: 'off',
    DATABASE_URL: await createDatabase(t),
    DATA_DIR: folder,
    AUDIT_LOG: 'off',
    LOG_LEVEL: 'silent',
  })
  t.teardown(() => service.stop())
  const [address] = service.addresses.grpc
  if (address === undefined || 'path' in address) throw new Error('no port')
  const { stdout } = await run(client, [`127.0.0.1:${address.port}`]).catch((error) => error)
  const lines = stdout.trim().split('\n')
  for (const line of lines) t.ok(line.startsWith('ok '), line)
  t.ok(lines.length >= 13)
})
