import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import type { Test } from 'tap'
import { freePorts } from './free-ports.ts'
import { poll } from './poll.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { valkeyPath } from './valkey-binary.ts'

/**
 * Starts a Sentinel that alone watches the primary on this port, named `main`: how long the primary
 * must be silent to count as down, and after how long a failover is given up (ms).
 */
export async function startSentinel(
  t: Test,
  primary: number,
  { downMs, failoverMs }: { downMs: number; failoverMs: number },
) {
  const [port = 0] = await freePorts(1)
  const folder = temporaryFolder(t)
  const file = join(folder, 'sentinel.conf')
  writeFileSync(
    file,
    [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir ${folder}`,
      `sentinel monitor main 127.0.0.1 ${primary} 1`,
      `sentinel down-after-milliseconds main ${downMs}`,
      `sentinel failover-timeout main ${failoverMs}`,
    ].join('\n'),
  )
  const child = spawn(valkeyPath() as string, [file, '--sentinel'], { stdio: 'ignore' })
  t.teardown(() => child.kill('SIGKILL'))
  const client = new Redis({ host: '127.0.0.1', port, retryStrategy: () => 50 })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  await poll(() => client.status === 'ready', 'Sentinel answers')
  return { port, client }
}
