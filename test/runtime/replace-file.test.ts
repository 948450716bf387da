import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import root from 'tap'
import { replaceFile, replaceFileSync } from '../../src/runtime/replace-file.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'

const folder = makeTemporaryFolder()
root.teardown(() => folder.remove())
const path = join(folder.path, 'file')
const text = () => readFileSync(path, 'utf8')

root.test('a write that fails leaves the file before, and no draft', async (t) => {
  await replaceFile(path, 'old')
  const failing = replaceFile(path, async (file) => {
    await file.writeFile('ne')
    throw new Error('full')
  })
  await t.rejects(failing, { message: 'full' })
  t.equal(text(), 'old')
  t.strictSame(readdirSync(folder.path), ['file'])
})

root.test('writes parts over a draft that was left', async (t) => {
  const draft = `${path}.new`
  await replaceFile(draft, 'left by a process that was killed')
  await replaceFile(path, ['a', 'b'], { draft, mode: 0o600 })
  t.equal(text(), 'ab')
  t.equal(statSync(path).mode & 0o777, 0o600)
  t.strictSame(readdirSync(folder.path), ['file'])
})

root.test('leaves a file that is there, if it is to', async (t) => {
  await replaceFile(path, 'first')
  await replaceFile(path, 'second', { onlyIfAbsent: true })
  t.equal(text(), 'first')
})

root.test('concurrent calls leave the text of one, whole', async (t) => {
  const texts = Array.from({ length: 20 }, (_, number) => String(number).repeat(10_000))
  await Promise.all(texts.map((each) => replaceFile(path, each)))
  t.ok(texts.includes(text()))
  t.strictSame(readdirSync(folder.path), ['file'])
})

root.test('at once: whole, with its inode, over a draft that was left', async (t) => {
  const draft = `${path}.new`
  replaceFileSync(draft, 'left by a process that was killed')
  replaceFileSync(path, (inode) => `I am ${inode}`, { draft, mode: 0o600, isDurable: true })
  const { ino, mode } = statSync(path)
  t.strictSame([text(), mode & 0o777], [`I am ${ino}`, 0o600])
  replaceFileSync(path, 'second', { onlyIfAbsent: true })
  t.equal(text(), `I am ${ino}`)
  const refuse = () => {
    throw new Error('full')
  }
  t.throws(() => replaceFileSync(path, refuse), { message: 'full' })
  t.strictSame([text(), readdirSync(folder.path)], [`I am ${ino}`, ['file']])
})
