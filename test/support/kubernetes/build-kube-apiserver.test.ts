import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { temporaryFolder } from '../temporary-folder.ts'

const script = join(import.meta.dirname, 'build-kube-apiserver')

test('missing programs are named before anything is built', async (t) => {
  const [programs, folder] = [temporaryFolder(t), join(temporaryFolder(t), 'kube')]
  const ran = join(programs, 'ran')
  writeFileSync(join(programs, 'go'), `#!/bin/sh\necho > ${ran}\n`, { mode: 0o755 })
  const { status, stderr } = spawnSync('/bin/sh', [script, folder], {
    env: { PATH: programs },
    encoding: 'utf8',
  })
  t.equal(status, 1)
  t.equal(stderr, 'not on PATH: etcd (Debian: etcd-server) kubectl\n')
  t.notOk(existsSync(ran) || existsSync(folder))
  t.strictSame(readdirSync(programs), ['go'])
})
