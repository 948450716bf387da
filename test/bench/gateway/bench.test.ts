import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { test } from 'tap'
import { envoyPath } from '../../support/envoy-binary.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { runBench } from './run-bench.ts'

const skip = envoyPath() === undefined && 'no Envoy'

/** Processes whose command line contains this folder. */
function processesNaming(folder: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    const file = `/proc/${pid}/cmdline`
    return /^\d+$/.test(pid) && existsSync(file) && readQuietly(file).includes(folder)
  })
}

function readQuietly(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

test('a short bench prints its table and cleans up', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const settings = { ENVOY_PATH: envoyPath() ?? '', TMPDIR: folder }
  const args = ['--rows', 'path-json-small', '--seconds', '2', '--rate', '50', '--no-yardsticks']
  const bench = runBench(t, args, settings)
  t.equal(await bench.ended, 0, bench.output())
  t.match(bench.output(), /^reserve +\d+ +(\d\d|1[012]\d) %/m)
  const row = bench.output().match(/^path-json-small +([\d,]+) ±\d+% +([\d,]+) ±\d+%/m)
  t.ok(row, bench.output())
  t.ok(Number(row?.[1]?.replace(',', '')) > 1, 'the bare Envoy has answered requests')
  t.strictSame(readdirSync(folder), [])
  t.strictSame(processesNaming(folder), [])
})

test('Ctrl-C during a run cleans up', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const settings = { ENVOY_PATH: envoyPath() ?? '', TMPDIR: folder }
  const bench = runBench(t, ['--seconds', '60', '--no-yardsticks'], settings)
  await bench.until('warming up')
  t.ok(processesNaming(folder).length > 1)
  bench.signal('SIGINT')
  t.equal(await bench.ended, 130)
  t.strictSame(readdirSync(folder), [])
  t.strictSame(processesNaming(folder), [])
})

test('an invalid option prints the reason', async (t) => {
  const bench = runBench(t, ['--rounds', '1'], {})
  t.equal(await bench.ended, 2)
  t.match(bench.output(), '--rounds is a whole number from 3 to 99, not "1".')
})
