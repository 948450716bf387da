import { existsSync, readFileSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Test, test } from 'tap'
import { holdModels } from '../../src/gateway/activation.ts'
import type { LoadedClusters } from '../../src/gateway/admin-page.ts'
import { createClusterFile } from '../../src/gateway/cluster-file.ts'
import { noClusters, writeClusters } from '../../src/gateway/clusters.ts'
import type { ModelRef, Resource } from '../../src/kinds/resources.ts'
import { clusterName } from '../../src/models/rules/snapshot.ts'
import { inSlices } from '../../src/runtime/slices.ts'
import { compile } from '../support/compile.ts'
import { accessPolicy, modelRef, resourceOf, snapshotOf } from '../support/documents.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const clusterOf = (name: string) => clusterName(resourceOf(modelRef(name)) as ModelRef)

/** A cluster file, and an Envoy whose admin page shows `taken`; undefined: it does not respond. */
function begin(t: Test, folder = temporaryFolder(t)) {
  const path = join(folder, 'clusters.json')
  const envoy: {
    taken: Omit<LoadedClusters, 'resolved'> | undefined
    asked: number
    resolves: boolean
  } = { taken: undefined, asked: 0, resolves: true }
  const overdue: string[] = []
  const seen = { times: 0 }
  const file = createClusterFile({
    directory: folder,
    async readLoadedClusters(named) {
      envoy.asked += 1
      if (envoy.taken === undefined) throw new Error('no answer')
      return { ...envoy.taken, resolved: new Set(envoy.resolves ? named : []) }
    },
    onLoaded() {},
    onSeen() {
      seen.times += 1
    },
    onOverdue: (models, reason) => overdue.push(`${models.join()}: ${reason}`),
    onFault: (error) => t.fail(String(error)),
  })
  t.teardown(() => file.close())
  const read = () =>
    JSON.parse(readFileSync(path, 'utf8')) as {
      version_info: string
      resources: { name: string }[]
    }
  return {
    file,
    envoy,
    overdue,
    seen,
    path,
    async write(...names: readonly string[]) {
      await inSlices(file.planInSteps(snapshotOf(...names.map((name) => modelRef(name)))))
      await file.write()
      return read().version_info
    },
    clusters: () =>
      read()
        .resources.map(({ name }) => name.replace(/^model\/llm\/|\/[0-9a-f]{8}$/g, ''))
        .join(),
    unseen: () =>
      [...file.unseen].map(([key, { reason }]) => `${key.replace('llm/', '')} ${reason}`).join(),
    waiting: () => [...file.waiting.keys()].map((key) => key.replace('llm/', '')).join(),
  }
}

/** The same after its start, with the model `old`. */
async function running(t: Test) {
  const world = begin(t)
  const version = await world.write('old')
  world.envoy.taken = { version, warming: new Set() }
  await world.file.settled()
  return { ...world, version }
}

test('a list that was removed or emptied is written again', async (t) => {
  const { path, clusters, version } = await running(t)
  const read = () => existsSync(path) && clusters() === 'old'
  rmSync(dirname(path), { recursive: true })
  await poll(read, 'the list is back')
  // As `tollgate envoy-config --write` does if there is no list.
  await writeClusters(dirname(path), noClusters)
  await poll(read, 'the list is back')
  t.equal(JSON.parse(readFileSync(path, 'utf8')).version_info, version)
})

test('the start does not wait for an Envoy that is not running', async (t) => {
  const { file, overdue, write, clusters, waiting } = begin(t)
  await write('a', 'b')
  await file.settled()
  t.strictSame(overdue, [])
  t.equal(clusters(), 'a,b')
  await write('a', 'b', 'c')
  t.equal(waiting(), 'c', 'later models wait for a while')
  await file.settled()
  t.strictSame(overdue, ['llm/c: no answer'])
})

test('models that stopped waiting are polled until Envoy has them', async (t) => {
  const { file, envoy, write, unseen, seen } = begin(t)
  const first = await write('a', 'b')
  await file.settled()
  t.equal(unseen(), 'a no answer,b no answer')
  const second = await write('a', 'c')
  await poll(() => unseen() === 'a no answer,c no answer', 'the same for a later model')
  envoy.taken = { version: first, warming: new Set() }
  await poll(() => unseen() === 'c no answer', 'an older file has one of them')
  envoy.taken = { version: second, warming: new Set() }
  await poll(() => unseen() === '', 'a newer file has the other')
  t.equal(seen.times, 2)
  const { asked } = envoy
  await new Promise((settle) => setTimeout(settle, 1_200))
  t.equal(envoy.asked, asked, 'polling has ended')
})

test('writes a file without models', async (t) => {
  const { write, clusters, waiting } = begin(t)
  await write()
  t.equal(clusters() + waiting(), '')
})

test('a model waits until Envoy has loaded its cluster', async (t) => {
  const { file, envoy, write, waiting, overdue } = await running(t)
  const version = await write('old', 'new')
  t.equal(waiting(), 'new')
  const { asked } = envoy
  await poll(() => envoy.asked > asked + 3, 'the admin page is polled')
  t.equal(waiting(), 'new')
  envoy.taken = { version, warming: new Set([clusterOf('new')]) }
  const warmed = envoy.asked
  await poll(() => envoy.asked > warmed + 2, 'the admin page is polled again')
  t.equal(waiting(), 'new', 'the cluster is still warming')
  envoy.taken = { version, warming: new Set() }
  await file.settled()
  t.equal(waiting(), '')
  t.strictSame(overdue, [])
})

test('a model waits for the address of its server', async (t) => {
  const { file, envoy, write, waiting, overdue } = await running(t)
  envoy.resolves = false
  envoy.taken = { version: await write('old', 'new'), warming: new Set() }
  const { asked } = envoy
  await poll(() => envoy.asked > asked + 3, 'the admin page is polled')
  t.equal(waiting(), 'new')
  envoy.resolves = true
  await file.settled()
  envoy.resolves = false
  envoy.taken = { version: await write('old', 'new', 'dead'), warming: new Set() }
  await file.settled()
  t.strictSame(overdue, [], 'a name that is not resolved holds its model only for a while')
})

test('an older file that Envoy has loaded counts', async (t) => {
  const { file, envoy, write, waiting } = await running(t)
  const first = await write('old', 'one')
  const second = await write('old', 'one', 'two')
  t.equal(waiting(), 'one,two')
  envoy.taken = { version: first, warming: new Set() }
  await poll(() => waiting() === 'two', 'the first model is loaded')
  envoy.taken = { version: second, warming: new Set() }
  await file.settled()
  t.equal(waiting(), '')
})

test('a removed model does not wait', async (t) => {
  const { write, waiting, clusters } = await running(t)
  await write('old', 'new')
  await write('old')
  t.equal(waiting(), '')
  t.equal(clusters(), 'old,new', 'answered Checks need the cluster for a while')
})

test('a removed model has no cluster some seconds later', async (t) => {
  const one = await running(t)
  const other = begin(t, dirname(one.path))
  for (const each of [one, other]) {
    await each.write('old', 'gone')
    await each.write('old')
  }
  t.equal(one.clusters(), 'old,gone')
  await poll(() => one.clusters() === 'old', 'it is gone', 8_000)
  await one.write('next', 'old')
  t.equal(one.clusters(), 'next,old')
})

test('a process that has missed a change does not undo it as it drops a removed model', async (t) => {
  const behind = await running(t)
  const other = begin(t, dirname(behind.path))
  await behind.write('old', 'gone')
  await behind.write('old')
  await other.write('new')
  await new Promise((settle) => setTimeout(settle, 6_000))
  t.equal(behind.clusters(), 'new')
  await behind.write('new', 'old')
  t.equal(behind.clusters(), 'new,old')
})

test('a model that returns before its cluster is removed does not wait for long', async (t) => {
  const { file, envoy, write, waiting } = await running(t)
  envoy.taken = { version: await write('other'), warming: new Set() }
  await file.settled()
  envoy.taken = { version: await write('old', 'other'), warming: new Set() }
  await poll(() => waiting() === '', 'the file shows the model again', 1_000)
})

test('unchanged clusters are not written again', async (t) => {
  const { file, path, write, envoy } = await running(t)
  const { mtimeNs } = statSync(path, { bigint: true })
  const { asked } = envoy
  const opened = accessPolicy('p', ['llm/old'], { users: ['ada'] })
  await inSlices(file.planInSteps(snapshotOf(modelRef('old'), opened)))
  await file.write()
  t.equal(statSync(path, { bigint: true }).mtimeNs, mtimeNs)
  await write('old')
  t.equal(statSync(path, { bigint: true }).mtimeNs, mtimeNs)
  t.equal(envoy.asked, asked, 'the admin page is not polled')
})

test('a thousand clusters are planned in as many steps and take effect together', async (t) => {
  const { file, waiting } = await running(t)
  const models = Array.from({ length: 1_000 }, (_, i) => modelRef(`m${i}`))
  const steps = file.planInSteps(snapshotOf(...models))
  let count = 0
  while (!steps.next().done) {
    count += 1
    t.equal(waiting(), '', 'no model waits before all are planned')
  }
  t.equal(count, 1_000)
  t.equal(file.waiting.size, 1_000)
})

test('recreates a missing folder', async (t) => {
  const { path, write, waiting } = await running(t)
  rmSync(join(path, '..'), { recursive: true })
  await write('old', 'new')
  t.ok(statSync(path).size > 0)
  t.equal(waiting(), 'new')
})

test('a waiting model keeps its old server, but its access changes', async (t) => {
  const before = [
    modelRef('moves'),
    accessPolicy('open', ['llm/moves', 'llm/new'], { users: ['ada'] }),
  ].map(resourceOf)
  const shown = compile(before)
  const after: Resource[] = [
    modelRef('moves', { backendUrl: 'http://elsewhere' }),
    modelRef('new'),
    accessPolicy('open', ['llm/moves', 'llm/new'], { users: ['bob'] }),
  ].map(resourceOf)
  const held = new Set(['llm/moves', 'llm/new'])
  const between = compile(holdModels(after, held, shown), compile(after))
  t.strictSame([...between.models.keys()], ['llm/moves'])
  t.match(between.models.get('llm/moves'), {
    resource: { backendUrl: 'http://moves.example:8000' },
    users: new Set(['bob']),
  })
  t.strictSame(compile(holdModels(after, new Set(), shown)), compile(after))
})
