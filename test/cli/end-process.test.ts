import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { temporaryFolder } from '../support/temporary-folder.ts'

const module = new URL('../../src/cli/end-process.ts', import.meta.url)

/** How a process ends that runs this. */
async function endOf(statement: string): Promise<unknown> {
  const script = `
    const fs = await import('node:fs')
    const { endProcessWhenIdle, endProcessNow } = await import('${module}')
    ${statement}`
  const args = ['--input-type=module', '-e', script]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'] })
  const late = setTimeout(() => child.kill('SIGABRT'), 60_000)
  const [status, signal] = await once(child, 'exit')
  clearTimeout(late)
  return signal ?? status
}

test('a file operation that hangs does not hold up the end', async (t) => {
  t.equal(await endOf('endProcessNow(3)'), 3)
  const pipe = join(temporaryFolder(t), 'pipe')
  if (spawnSync('mkfifo', [pipe]).status !== 0) return t.comment('no mkfifo')
  // Opening it waits for a writer.
  const hang = `fs.open('${pipe}', 'r', () => {})`
  const late = `setTimeout(() => endProcessNow(3), 300).unref()`
  t.equal(await endOf(`${hang}; ${late}; await endProcessWhenIdle(0)`), 'SIGKILL')
})

test('an operation that takes a while is waited for', async (t) => {
  const path = join(temporaryFolder(t), 'file')
  const write = `fs.writeFile('${path}', 'x'.repeat(10_000_000), () => {})`
  t.equal(await endOf(`${write}; await endProcessWhenIdle(4)`), 4)
  t.equal(statSync(path).size, 10_000_000)
})
