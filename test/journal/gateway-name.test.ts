import { copyFileSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Test, test } from 'tap'
import { openGatewayName, randomGatewayName } from '../../src/journal/gateway-name.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'

const nameIn = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8')).name

function makeWorld(t: Test) {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  const [kept, shared] = [join(folder.path, 'kept.name'), join(folder.path, 'shared.name')]
  const open = (host = 'here') => openGatewayName({ kept, shared, journal: 'usage.jsonl', host })
  return { kept, shared, open }
}

test('a gateway has one name, whatever is restarted', async (t) => {
  const { kept, shared, open } = makeWorld(t)
  t.notOk(existsSync(kept))
  const { name, isCopied } = open()
  t.match(name, /^[0-9A-Za-z]{8}$/)
  t.equal(isCopied, false)
  t.equal(open().name, name)
  rmSync(shared)
  t.equal(open().name, name, 'what was in memory is gone')
  rmSync(kept)
  t.equal(open().name, name, 'the disk is gone')
  t.equal(nameIn(kept), name)
  t.match(JSON.parse(readFileSync(kept, 'utf8')), { journal: 'usage.jsonl', host: 'here' })
  t.not(randomGatewayName(), randomGatewayName())
})

test('a name that somebody removes is put back while it is known', async (t) => {
  const { kept, shared, open } = makeWorld(t)
  const { name, putBack } = open()
  for (const [lost, other] of [
    [kept, shared],
    [shared, kept],
  ] as const) {
    rmSync(lost)
    await putBack()
    t.equal(nameIn(lost), name)
    // The other folder is lost later.
    rmSync(other)
    t.match(open(), { name, isCopied: false })
  }
  rmSync(dirname(kept), { recursive: true })
  await t.resolves(putBack(), 'the folder is gone')
})

test('a copy of it is known, on this machine or another one', async (t) => {
  const { kept, open } = makeWorld(t)
  const { name } = open()
  t.equal(open('there').isCopied, true)
  t.equal(open().isCopied, false)
  copyFileSync(kept, `${kept}.copy`)
  renameSync(`${kept}.copy`, kept)
  const copy = open()
  t.equal(copy.isCopied, true)
  t.equal(copy.name, name)
  const other = open()
  t.equal(other.refresh(), false)
  copy.rename('00000001')
  t.equal(copy.name, '00000001')
  t.equal(other.refresh(), true)
  t.equal(other.name, '00000001')
  t.equal(open().isCopied, false)
})

test('two names are an error, unless one was being taken', async (t) => {
  const { kept, shared, open } = makeWorld(t)
  const { name, rename } = open()
  const before = readFileSync(shared)
  rename('00000001')
  writeFileSync(shared, before)
  t.equal(open().name, '00000001', 'it was killed in between')
  t.equal(nameIn(shared), '00000001')
  writeFileSync(shared, before)
  rename('00000002')
  writeFileSync(shared, before)
  t.throws(() => open(), new RegExp(`00000002.*${name}`))
  writeFileSync(kept, 'no name')
  t.throws(() => open(), /remove it/)
})
