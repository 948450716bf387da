import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { test } from 'tap'
import { cpuMicrosOf, residentBytesOf } from '../../../bench/gateway/process-costs.ts'

const skip = !existsSync('/proc/self/task') && 'no /proc'
const spin = 'const end = Date.now() + 300; while (Date.now() < end);'
const rest = 'setInterval(() => {}, 1000)'

async function runs(child: ChildProcess): Promise<void> {
  await once(child.stdout as never, 'data')
}

test('the CPU time of a process includes its children', { skip }, async (t) => {
  const inner = `${spin} console.log(1); ${rest}`
  const outer = `require('child_process').spawn(process.execPath, ['-e', ${JSON.stringify(inner)}], { stdio: 'inherit' }); ${rest}`
  const child = spawn(process.execPath, ['-e', outer], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  const other = spawn(process.execPath, ['-e', `console.log(1); ${rest}`])
  t.teardown(() => process.kill(-(child.pid ?? 0), 'SIGKILL'))
  t.teardown(() => void other.kill('SIGKILL'))
  await Promise.all([runs(child), runs(other)])
  const [both, one] = [child.pid ?? 0, other.pid ?? 0]
  t.ok(cpuMicrosOf(both) > cpuMicrosOf(one) + 30_000, 'includes the CPU time of the child')
  t.ok(residentBytesOf(both) > residentBytesOf(one) * 1.3)
})

test('the costs of an ended process are unknown', async (t) => {
  t.ok(Number.isNaN(cpuMicrosOf(2 ** 22 + 1)))
  t.ok(Number.isNaN(residentBytesOf(2 ** 22 + 1)))
})
