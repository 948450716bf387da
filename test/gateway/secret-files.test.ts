import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { createSecretFiles } from '../../src/gateway/secret-files.ts'
import { secretFolder } from '../../src/gateway/secret-location.ts'
import { modelRef, snapshotOf } from '../support/documents.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a secret that was removed is written again', async (t) => {
  const directory = temporaryFolder(t)
  const files = createSecretFiles({
    directory,
    read: async () => ({ text: 'secret' }),
    onProblem: (problem) => t.fail(problem),
    onFault: (error) => t.fail(String(error)),
  })
  t.teardown(() => files.close())
  const credential = { file: 'key' }
  await files.write(snapshotOf(modelRef('a', { credential })))
  const folder = secretFolder(directory)
  const [name = ''] = readdirSync(folder)
  const path = join(folder, name)
  for (const gone of [path, folder]) {
    rmSync(gone, { recursive: true })
    await poll(() => existsSync(path), 'it is back')
    t.equal(statSync(path).mode & 0o777, 0o600)
    t.equal(statSync(folder).mode & 0o777, 0o700)
  }
})

test('a secret that is not answered keeps no snapshot waiting', async (t) => {
  const directory = temporaryFolder(t)
  const problems: string[] = []
  const hanging = Promise.withResolvers<{ text: string }>()
  let hangs = false
  const files = createSecretFiles({
    directory,
    read: ({ file }) =>
      hangs && file !== 'd' ? hanging.promise : Promise.resolve({ text: 'old' }),
    onProblem: (problem) => void problems.push(problem),
    waitsMs: { fresh: 500, check: 200 },
    onFault: (error) => t.fail(String(error)),
  })
  t.teardown(() => files.close())
  const known = Array.from({ length: 40 }, (_, i) =>
    modelRef(`a${i}`, { credential: { file: `a${i}` } }),
  )
  await files.write(snapshotOf(...known))
  hangs = true
  const at = (name: string): string => join(secretFolder(directory), name)
  const texts = () =>
    readdirSync(secretFolder(directory)).map((name) => readFileSync(at(name), 'utf8'))
  const counts = () =>
    ['old', 'new'].map((text) => texts().filter((each) => each.includes(`"${text}"`)).length)
  const began = performance.now()
  await files.write(snapshotOf(...known, modelRef('b')))
  t.ok(performance.now() - began < 5_000, 'known ones are not waited for')
  const fresh = ['c', 'd'].map((file) => modelRef(file, { credential: { file } }))
  await files.write(snapshotOf(...known, ...fresh))
  t.ok(performance.now() - began < 20_000, 'new ones are waited for, but not without end')
  t.strictSame(counts(), [41, 0])
  t.equal(texts().length, 42, 'a cluster may name the file of the other one')
  t.strictSame(problems, ['ModelRef/llm/c: the secret has not been read yet'])
  hanging.resolve({ text: 'new' })
  await poll(() => counts()[1] === 41, 'what is answered later is written')
  t.strictSame(files.problems(), [])
})

test('a secret that is answered at the last moment is not replaced by a missing one', async (t) => {
  const directory = temporaryFolder(t)
  const fresh = 50
  const files = createSecretFiles({
    directory,
    // Some files are being written when the wait ends.
    read: async ({ file }) => {
      await delay(fresh - Number(file) / 4)
      return { text: 'answered' }
    },
    onProblem: () => {},
    waitsMs: { fresh, check: 200 },
    onFault: (error) => t.fail(String(error)),
  })
  t.teardown(() => files.close())
  for (let round = 1; round <= 20; round += 1) {
    const models = Array.from({ length: 8 }, (_, i) =>
      modelRef(`a${round}-${i}`, { credential: { file: `${i}.${round}` } }),
    )
    await files.write(snapshotOf(...models))
    // Before the files are checked again.
    await delay(fresh)
    t.strictSame(files.problems(), [], `round ${round}`)
  }
})
