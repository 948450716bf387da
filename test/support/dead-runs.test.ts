import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { claimForRun, removeDeadRuns } from './dead-runs.ts'
import { temporaryFolder } from './temporary-folder.ts'

test('only the folders of ended runs are removed', async (t) => {
  const parent = temporaryFolder(t)
  const make = (name: string): string => {
    const folder = join(parent, name)
    mkdirSync(join(folder, 'postgres', 'data'), { recursive: true })
    return folder
  }
  const [ours, dead, foreign] = ['ours', 'dead', 'foreign'].map((name) => {
    const folder = make(`tollgate-test-${name}`)
    claimForRun(folder)
    return folder
  }) as [string, string, string]
  const change = (folder: string, more: object) => {
    const owner = JSON.parse(readFileSync(join(folder, 'run.json'), 'utf8'))
    writeFileSync(join(folder, 'run.json'), JSON.stringify({ ...owner, ...more }))
  }
  // The id of this process, reused.
  change(dead, { started: '1' })
  change(foreign, { started: '1', namespace: 'pid:[1]' })
  const others = [ours, foreign, make('tollgate-test-unknown'), make('another')]
  const segment = makeSegment(join(dead, 'postgres', 'data', 'postmaster.pid'))
  removeDeadRuns(parent)
  t.notOk(existsSync(dead))
  for (const folder of others) t.ok(existsSync(folder), folder)
  if (segment !== undefined) t.notOk(hasSegment(segment), 'its shared memory is freed')
})

/** A segment without a process, as in line 7 of the file; undefined if this machine cannot create one. */
function makeSegment(pidFile: string): string | undefined {
  const { stdout } = spawnSync('ipcmk', ['-M', '56'], { encoding: 'utf8' })
  const id = /\d+$/.exec(stdout?.trim() ?? '')?.[0]
  const key = rows().find((row) => row[1] === id)?.[0]
  writeFileSync(pidFile, `1\n\n\n\n\n\n${key} ${id}\nready\n`)
  return id
}

function hasSegment(id: string): boolean {
  return rows().some((row) => row[1] === id)
}

function rows(): readonly string[][] {
  if (!existsSync('/proc/sysvipc/shm')) return []
  const lines = readFileSync('/proc/sysvipc/shm', 'utf8').split('\n')
  return lines.map((line) => line.trim().split(/\s+/))
}
