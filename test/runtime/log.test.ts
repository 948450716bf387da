import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { poll } from '../support/poll.ts'

const hasFull = existsSync('/dev/full')
const module = new URL('../../src/runtime/log.ts', import.meta.url)

/** A process that runs this statement with a log, and ends 200 ms later. */
function runWith(stdout: number | 'pipe', statement: string, code: string) {
  const script = `
    const { createLog } = await import('${module}')
    const { setTimeout: delay } = await import('node:timers/promises')
    const log = createLog('info')
    ${statement}
    await delay(200)
    console.error('works')
    process.exit(${code})`
  const args = ['--input-type=module', '-e', script]
  const child = spawn(process.execPath, args, { stdio: ['ignore', stdout, 'pipe'] })
  return {
    child,
    ended: once(child, 'exit'),
    errors: text(child.stderr as NonNullable<typeof child.stderr>),
  }
}

test('a log on a full disk stops neither the process nor its end', {
  skip: !hasFull && 'without /dev/full',
}, async (t) => {
  const lines = `for (const line of [1, 2, 3]) { log.info({ code: 'line' }, String(line)); await delay(20) }`
  const { ended, errors } = runWith(openSync('/dev/full', 'w'), lines, '3')
  t.same(await ended, [3, null])
  t.equal(await errors, 'works\n')
})

const many = `for (let line = 0; line < 100_000; line += 1) log.info({ code: 'line' }, String(line))`

test('a log that is read late says how many lines it dropped', async (t) => {
  const written = `${many}\nconsole.error('written')\nawait delay(60_000)`
  const { child, ended } = runWith('pipe', written, '0')
  await once(child.stderr as NonNullable<typeof child.stderr>, 'data')
  let output = ''
  child.stdout?.setEncoding('utf8').on('data', (piece) => {
    output += piece
  })
  await poll(() => output.includes('log_lines_dropped'), 'it says so', 30_000)
  child.kill()
  await ended
  const lines = output.trim().split('\n')
  const { code, lines: dropped } = JSON.parse(lines.at(-1) as string)
  t.equal(code, 'log_lines_dropped')
  t.equal(lines.length - 1 + dropped, 100_000)
})

test('a reader that has stopped does not hold up the end', async (t) => {
  const { child, ended } = runWith('pipe', many, '3')
  const begun = performance.now()
  const killed = setTimeout(() => child.kill('SIGKILL'), 30_000)
  t.same(await ended, [3, null])
  clearTimeout(killed)
  t.comment(`${Math.round(performance.now() - begun)} ms`)
})

test('a slow reader gets the last lines in their order', async (t) => {
  const { child, ended } = runWith('pipe', many.replace('100_000', '20_000'), '3')
  // While the process waits for room, and then ends.
  await delay(300)
  const lines = (await text(child.stdout as NonNullable<typeof child.stdout>)).trim().split('\n')
  t.same(await ended, [3, null])
  t.equal(lines.length, 20_000)
  t.ok(lines.every((line, i) => JSON.parse(line).msg === String(i)))
})

test('all lines of a process that ends are written', async (t) => {
  const { child, ended } = runWith('pipe', '', "(log.info({ code: 'line' }, 'last'), 0)")
  const lines = await text(child.stdout as NonNullable<typeof child.stdout>)
  await ended
  t.match(lines, /"last"}\n$/)
})
