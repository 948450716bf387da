import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { identify } from '../../dev/process-identity.ts'
import { poll } from './poll.ts'
import { createTapReport } from './tap-report.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { findNamed, findTestFiles, runTestFiles } from './test-files.ts'

const always = availableParallelism()

/** Runs files, each of which ends once this many have begun; returns the maximum that ran concurrently. */
async function runTogether(t: Test, count: number, jobs: number, idle: number) {
  const folder = temporaryFolder(t)
  const begun = temporaryFolder(t)
  const files = Array.from({ length: 2 * jobs }, (_, i) => join(folder, `${i}.cjs`))
  const program = `
    const { readdirSync, writeFileSync } = require('node:fs')
    writeFileSync(${JSON.stringify(begun)} + '/' + process.pid, '')
    const timer = setInterval(() => {
      if (readdirSync(${JSON.stringify(begun)}).length < ${count}) return
      clearInterval(timer)
      console.log('TAP version 14\\nok 1 - works\\n1..1')
    }, 10)`
  for (const file of files) writeFileSync(file, program)
  const { begin, score } = createTapReport(() => {})
  let [running, most] = [0, 0]
  await runTestFiles(files, {
    env: process.env,
    jobs,
    limitMs: 60_000,
    idleShare: () => idle,
    begin(file) {
      running += 1
      most = Math.max(most, running)
      const report = begin(file)
      return {
        parser: report.parser,
        end(end) {
          running -= 1
          report.end(end)
        },
      }
    },
  })
  t.match(score, { passed: files.length, failed: 0 })
  t.equal(readdirSync(begun).length, files.length)
  return most
}

test('npm test refuses figures that are none', async (t) => {
  for (const flag of ['--jobs=x', '--jobs=0', '--timeout=1m']) {
    const args = ['test/run.ts', flag, 'test/formats/time.test.ts']
    const { status, stdout } = spawnSync(process.execPath, args, { timeout: 60_000 })
    t.match([status, `${stdout}`], [2, /^--(jobs|timeout) is a whole number above 0\.\n$/], flag)
  }
})

test('a folder stands for its test files', async (t) => {
  const all = findTestFiles()
  for (const folder of ['test/decide', 'test/decide/', './test/decide']) {
    const { files, absent } = findNamed([folder])
    t.strictSame(
      files,
      all.filter((file) => file.startsWith('test/decide/')),
      folder,
    )
    t.ok(files.length > 1 && absent.length === 0)
  }
  t.strictSame(findNamed(['.']).files, all)
  t.strictSame(findNamed(['test/decide', 'test/decide/decide.test.ts']), findNamed(['test/decide']))
  t.strictSame(findNamed(['test/none', 'docs']).absent, ['test/none', '*.test.ts in docs'])
  const soak = 'test/nightly/soak/cluster.soak.ts'
  t.strictSame(findNamed([soak]), { files: [soak], absent: [] })
})

test('idle processors run as many files at a time as allowed', async (t) => {
  t.equal(await runTogether(t, always + 2, always + 2, 1), always + 2)
})

test('busy processors run one file each', async (t) => {
  t.equal(await runTogether(t, always, always + 2, 0), always)
})

test('one job runs one file at a time', async (t) => {
  t.equal(await runTogether(t, 1, 1, 1), 1)
})

/**
 * Ends a running file with `how`, and waits until the process that it has started ends; returns whether all files were
 * run.
 */
async function endsItsProcess(t: Test, how: (file: number) => void): Promise<boolean> {
  const folder = temporaryFolder(t)
  const [file, pids] = [join(folder, 'waits.cjs'), join(folder, 'pids')]
  const program = `
    const { spawn } = require('node:child_process')
    const child = spawn('sleep', ['600'], { stdio: 'ignore' })
    require('node:fs').writeFileSync(${JSON.stringify(pids)}, [process.pid, child.pid].join(' '))
    setInterval(() => {}, 1_000)`
  writeFileSync(file, program)
  const { begin } = createTapReport(() => {})
  const running = runTestFiles([file], { env: process.env, jobs: 1, limitMs: 60_000, begin })
  const [leader = 0, child = 0] =
    (await poll(() => {
      const written = existsSync(pids) ? readFileSync(pids, 'utf8').split(' ') : []
      return written.length === 2 ? written.map(Number) : undefined
    }, 'it has begun')) ?? []
  how(leader)
  const isComplete = await running
  await poll(() => identify(child) === undefined, 'its process has ended')
  return isComplete
}

test('what an interrupted file has started ends with it', async (t) => {
  const interrupt = () => process.emit('SIGINT')
  t.equal(await endsItsProcess(t, interrupt), false)
})

test('and so does what a killed one has started', async (t) => {
  t.equal(await endsItsProcess(t, (file) => process.kill(file, 'SIGKILL')), true)
})
