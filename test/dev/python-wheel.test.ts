import { chmodSync, existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { fetchWheel, findOnPath, wheelFolder } from '../../dev/python-wheel.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const skip = findOnPath('python3', process.env) === undefined && 'no python3'

test('pip never comes from the current folder', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const marker = join(folder, 'ran')
  writeFileSync(join(folder, 'pip.py'), `open(${JSON.stringify(marker)}, 'w')\n`)
  writeFileSync(join(folder, 'requirements.txt'), '')
  const before = process.cwd()
  t.teardown(() => process.chdir(before))
  process.chdir(folder)
  const wheel = {
    name: 'nothing',
    folder: `nothing-${process.pid}`,
    requirements: join(folder, 'requirements.txt'),
    howElse: 'do without',
    proof: 'none',
  }
  t.teardown(() => rmSync(wheelFolder(wheel), { recursive: true, force: true }))
  await t.rejects(fetchWheel(wheel, { env: process.env }))
  t.notOk(existsSync(marker))
})

test('programs are not looked for in folders below the current one', async (t) => {
  const folder = temporaryFolder(t)
  const program = join(folder, 'program')
  writeFileSync(program, '')
  chmodSync(program, 0o755)
  const before = process.cwd()
  t.teardown(() => process.chdir(before))
  process.chdir(folder)
  for (const PATH of ['.', '', './/', ':.:', '..'])
    t.equal(findOnPath('program', { PATH }), undefined, PATH)
  t.equal(findOnPath('program', { PATH: `.:${folder}` }), program)
})
