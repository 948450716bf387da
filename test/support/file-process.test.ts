import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { startSharedProcess } from './file-process.ts'
import { createTapReport } from './tap-report.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** A process for files with these texts, each run by its number; and the results of their tests. */
function startProcess(t: Test, texts: readonly string[]) {
  const folder = temporaryFolder(t)
  const { begin, score } = createTapReport(() => {})
  const shared = startSharedProcess({
    env: process.env,
    limitMs: 60_000,
    stopping: new AbortController().signal,
  })
  t.teardown(() => shared.end())
  const run = async (number: number) => {
    const file = join(folder, `${number}.mjs`)
    writeFileSync(file, `import t, { test } from 'tap'\n${texts[number]}`)
    const report = begin(file)
    const fault = await shared.run(file, report)
    report.end({ fault, ms: 1 })
    return fault
  }
  return { shared, run, score }
}

test('each file has its own tests and environment', async (t) => {
  const { shared, run, score } = startProcess(t, [
    `process.env.LEFT = '1'; globalThis.pid = process.pid
     test('passes', async (t) => t.pass()); test('fails', async (t) => t.fail())
     t.teardown(() => { globalThis.isTornDown = true })`,
    `test('the same process', async (t) => t.equal(globalThis.pid, process.pid))
     test('another environment', async (t) => t.equal(process.env.LEFT, undefined))
     test('the other has ended', async (t) => t.ok(globalThis.isTornDown))`,
  ])
  for (const number of [0, 1]) t.equal(await run(number), undefined)
  t.match(score, { passed: 4, failed: 1 })
  t.equal(await shared.end(), undefined)
})

test('an error that nobody catches is of the test that led to it', async (t) => {
  const ways = [
    `setTimeout(() => { throw new Error('timer') })`,
    `Promise.reject(new Error('promise'))`,
    `queueMicrotask(() => { throw new Error('microtask') })`,
    `connect(1, '127.0.0.1')`,
    `await new Promise(setImmediate); readFile('/', () => { throw new Error('file') })`,
  ]
  const { shared, run, score } = startProcess(t, [
    `import { connect } from 'node:net'; import { readFile } from 'node:fs'
     ${ways.map((way, i) => `test('way ${i}', async (t) => { ${way}; await new Promise((done) => setTimeout(done, 10_000).unref()) })`).join('\n')}
     test('passes', async (t) => t.pass())`,
    `test('passes', async (t) => t.pass())`,
  ])
  t.equal(await run(0), undefined)
  t.match(score, { passed: 1, failed: ways.length })
  t.equal(await run(1), undefined)
  t.match(score, { passed: 2, failed: ways.length })
  t.equal(await shared.end(), undefined)
})

test('a file that ends the process fails', async (t) => {
  const { shared, run, score } = startProcess(t, ['process.exit(3)'])
  t.equal(await run(0), 'exit code 3')
  t.equal(shared.isUsable, false)
  t.match(score, { passed: 0, failed: 1 })
})

test('what a file leaves open is noticed', async (t) => {
  const { shared, run } = startProcess(t, [
    `setInterval(() => {}, 1_000); test('passes', async (t) => t.pass())`,
  ])
  t.equal(await run(0), undefined)
  t.match(await shared.end(), /did not end by itself/)
})
