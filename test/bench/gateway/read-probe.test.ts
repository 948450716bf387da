import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { test } from 'tap'
import { readProbe } from '../../../bench/gateway/read-probe.ts'
import { packageRoot } from '../../../src/runtime/package-root.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const probe = pathToFileURL(join(packageRoot, 'bench/gateway/probe.ts')).href

test('reads the probes of all processes of a service', async (t) => {
  const folder = temporaryFolder(t)
  await t.rejects(readProbe(folder), { message: /no process of the service/ })
  const start = (megabytes: number) => {
    const keep = `const kept = []; process.stdin.once('data', () => {
      for (let i = 0; i < ${megabytes}; i += 1) kept.push(new Array(131_072).fill(i))
      console.log('done')
    })`
    const child = spawn(process.execPath, ['--import', probe, '-e', keep], {
      env: { ...process.env, BENCH_PROBE: folder },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    return child
  }
  const children = [start(20), start(30)]
  await poll(() => readdirSync(folder).length === 2, 'both probes are listening')
  await readProbe(folder)
  for (const { stdin, stdout } of children) {
    stdin.write('go\n')
    await once(stdout, 'data')
  }
  const { allocatedBytes } = await readProbe(folder)
  t.ok(allocatedBytes > 45 * 2 ** 20, `${allocatedBytes} bytes for both processes`)
  children[0]?.kill('SIGKILL')
  await once(children[0] as NonNullable<(typeof children)[0]>, 'exit')
  t.ok((await readProbe(folder)).allocatedBytes < 45 * 2 ** 20, 'an ended process is left out')
})
