import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { resourceStatuses } from '../../../src/cluster/rules/conditions.ts'
import { toObjectStatus } from '../../../src/cluster/rules/object-status.ts'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import { createFolderSource } from '../../../src/models/sources/folder-source.ts'
import {
  loadSnapshot,
  type PipelineDeps,
  startPipeline,
} from '../../../src/models/sources/pipeline.ts'
import { formatProblem } from '../../../src/models/sources/resource-folder.ts'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const team = { groups: ['team-a'] }

function save(folder: string, name: string, ...documents: readonly unknown[]): void {
  const text = documents.map((document) => JSON.stringify(document, null, 1)).join('\n---\n')
  writeFileSync(join(folder, `.${name}`), text)
  renameSync(join(folder, `.${name}`), join(folder, name))
}

test('problems of all kinds are sorted by file and line', async (t) => {
  const folder = temporaryFolder(t)
  save(
    folder,
    'c.yaml',
    subscription('team-a', team, { 'llm/small': [[5, '1m']], 'llm/gone': [[5, '1m']] }),
  )
  save(
    folder,
    'a.yaml',
    modelRef('small'),
    subscription('team-b', team, { 'llm/small': [[5, '0m']] }),
  )
  save(folder, 'b.yaml', modelRef('small'), accessPolicy('open', ['llm/gone'], team))
  writeFileSync(join(folder, 'd.yaml'), 'a: [')
  const { snapshot, problems } = await loadSnapshot(folder)
  t.match(problems.map(formatProblem), [
    /^a\.yaml:\d+: error: Subscription team-b: spec\.modelRefs\[0\]\.tokenRateLimits\[0\]\.window must be/,
    /^b\.yaml:\d+: error: ModelRef\/llm\/small is defined at a\.yaml:\d+ already/,
    /^b\.yaml:\d+: warning: AccessPolicy open: spec\.modelRefs\[0\] names the model llm\/gone/,
    /^c\.yaml:\d+: warning: Subscription team-a: spec\.modelRefs\[1\] names the model llm\/gone/,
    /^d\.yaml:1: error: not valid YAML/,
  ])
  t.equal(problems.length, 5)
  t.strictSame([...snapshot.models.keys()], ['llm/small'])
  t.strictSame(
    [...snapshot.subscriptions.keys()],
    ['team-a'],
    'an invalid Subscription is not in force',
  )
  t.strictSame(
    [...snapshot.policies.values()].map(({ phase }) => phase),
    ['Failed'],
  )
})

test('conditions say of a missing model what problems say', async (t) => {
  const folder = temporaryFolder(t)
  const pays = (name: string, model: string) => subscription(name, team, { [model]: [[5, '1m']] })
  save(folder, 'a.yaml', modelRef('small'), modelRef('broken', { backendUrl: 'nowhere' }))
  save(folder, 'b.yaml', pays('near', 'llm/smal'), pays('shut', 'llm/broken'), pays('far', 'x/y'))
  const { snapshot } = await loadSnapshot(folder)
  const ready = resourceStatuses(snapshot).flatMap(({ kind, name, conditions: [first] }) =>
    kind === 'Subscription' ? `${name}: ${first?.message}` : [],
  )
  t.strictSame(ready, [
    'far: spec.modelRefs[0] names the model x/y, which does not exist',
    'near: spec.modelRefs[0] names the model llm/smal, which does not exist (did you mean llm/small?)',
    'shut: spec.modelRefs[0] names the model llm/broken, which is not in force',
  ])
  const entries = resourceStatuses(snapshot).map((status) =>
    toObjectStatus({
      ...{ status, snapshot, policyConditions: () => [], gatewayUrl: 'http://gateway.test' },
      ...{ before: undefined, generation: 1, now: 0 },
    }),
  )
  t.match(JSON.stringify(entries), /"name":"broken",[^}]*"message":"the ModelRef is not in force"/)
})

test('no other model is suggested while a document is illegible', async (t) => {
  const folder = temporaryFolder(t)
  save(folder, 'a.yaml', modelRef('small'), subscription('near', team, { 'llm/smal': [[5, '1m']] }))
  const said = async () => (await loadSnapshot(folder)).problems.map(({ message }) => message)
  const missing =
    'Subscription near: spec.modelRefs[0] names the model llm/smal, which does not exist'
  t.strictSame(await said(), [`${missing} (did you mean llm/small?)`])
  save(folder, 'c.yaml', modelRef('small'))
  t.strictSame((await said())[0], `${missing} (did you mean llm/small?)`, 'one that is there twice')
  writeFileSync(join(folder, 'b.yaml'), 'kind: ModelRef\nmetadata: { name: smal\n')
  const [first, ...others] = await said()
  t.strictSame([first, others.length], [missing, 2])
})

/** A controller of a folder, with its snapshots and reports. */
async function start(t: Test, folder: string, deps: Partial<PipelineDeps> = {}) {
  const published: Snapshot[] = []
  const reports: (readonly string[])[] = []
  const unreadable: unknown[] = []
  const controller = await startPipeline({
    source: createFolderSource(folder),
    async publish(snapshot) {
      published.push(snapshot)
    },
    report: (_, problems) => reports.push(problems),
    onFailure: (error) => unreadable.push(error),
    ...deps,
  })
  t.teardown(() => controller.close())
  return {
    controller,
    published,
    reports,
    unreadable,
    models: () => [...(published.at(-1)?.models.keys() ?? [])].join(),
  }
}

test('publishes the folder once at the start', async (t) => {
  const folder = temporaryFolder(t)
  save(folder, 'a.yaml', modelRef('small'))
  const { published, reports, models } = await start(t, folder)
  t.equal(published.length, 1)
  t.strictSame(reports, [[]])
  t.equal(models(), 'llm/small')
})

test('the start fails if the folder cannot be read', async (t) => {
  await t.rejects(start(t, join(temporaryFolder(t), 'none')), { code: 'ENOENT' })
})

test('the start fails if publishing fails', async (t) => {
  const folder = temporaryFolder(t)
  let tries = 0
  const publish = () => {
    tries += 1
    return Promise.reject(new Error('disk full'))
  }
  await t.rejects(start(t, folder, { publish }), /disk full/)
  const { models } = await start(t, folder)
  save(folder, 'a.yaml', modelRef('large'))
  await poll(() => models() === 'llm/large', 'another controller follows the folder')
  t.equal(tries, 1, 'the failed one does not')
})

test('a change takes effect within two seconds', async (t) => {
  const folder = temporaryFolder(t)
  save(folder, 'a.yaml', modelRef('small'))
  const { models } = await start(t, folder)
  save(folder, 'b.yaml', modelRef('large'))
  await poll(() => models() === 'llm/small,llm/large', 'a new file', 2_000)
  save(folder, 'a.yaml', modelRef('tiny'))
  await poll(() => models() === 'llm/tiny,llm/large', 'a file replaced by rename', 2_000)
  rmSync(join(folder, 'b.yaml'))
  await poll(() => models() === 'llm/tiny', 'a deleted file', 2_000)
  t.equal(models(), 'llm/tiny')
})

test('does not miss a change right after the start', async (t) => {
  for (let round = 0; round < 5; round += 1) {
    const folder = temporaryFolder(t)
    save(folder, 'a.yaml', modelRef('small'))
    const starting = start(t, folder)
    save(folder, 'a.yaml', modelRef('large'))
    const { models } = await starting
    await poll(() => models() === 'llm/large', 'the change takes effect')
  }
})

test('an invalid file leaves the others in force', async (t) => {
  const folder = temporaryFolder(t)
  save(folder, 'a.yaml', modelRef('small'))
  save(folder, 'b.yaml', modelRef('large'))
  const { controller, models, reports } = await start(t, folder)
  writeFileSync(join(folder, 'b.yaml'), 'kind: [')
  await poll(() => reports.length === 2, 'the invalid file is reported')
  t.equal(models(), 'llm/small')
  t.match(controller.problems(), [/^b\.yaml:1: error: not valid YAML/])
  save(folder, 'b.yaml', modelRef('large'))
  await poll(() => controller.problems().length === 0, 'the corrected file is read')
  t.equal(models(), 'llm/small,llm/large')
})

test('a deleted folder leaves all resources in force', async (t) => {
  const folder = join(temporaryFolder(t), 'resources')
  mkdirSync(folder)
  save(folder, 'a.yaml', modelRef('small'))
  const { published, unreadable, models } = await start(t, folder)
  rmSync(folder, { recursive: true })
  await poll(() => unreadable.length > 0, 'the missing folder is reported')
  t.equal(published.length, 1)
  t.match(unreadable, [{ code: 'ENOENT' }])
  mkdirSync(folder)
  save(folder, 'a.yaml', modelRef('large'))
  await poll(() => models() === 'llm/large', 'the new folder is read')
})

test('a change does not wait for an earlier one that cannot be published', async (t) => {
  const folder = temporaryFolder(t)
  const policies = (snapshot?: Snapshot) => [...(snapshot?.policies.keys() ?? [])].join()
  save(folder, 'a.yaml', modelRef('small'))
  save(folder, 'alice.yaml', accessPolicy('alice', ['llm/small'], { users: ['alice'] }))
  let isFull = false
  const tried: string[] = []
  const { controller, unreadable } = await start(t, folder, {
    async publish(snapshot) {
      tried.push(`${snapshot.models.size} ${policies(snapshot)}`)
      if (isFull) throw new Error('disk full')
    },
  })
  t.notOk(controller.isFailing())
  isFull = true
  save(folder, 'b.yaml', modelRef('large'))
  await poll(() => unreadable.length === 1, 'the new model cannot be published')
  t.ok(controller.isFailing())
  rmSync(join(folder, 'alice.yaml'))
  await poll(() => tried.at(-1) === '2 ', 'the removal is', 1_500)
  const before = tried.length
  await poll(() => tried.length > before, 'the same is tried again')
  t.ok(controller.isFailing())
  isFull = false
  await poll(() => !controller.isFailing(), 'there is space')
  t.strictSame([...new Set(tried)], ['1 alice', '2 alice', '2 '])
  const after = tried.length
  save(folder, 'c.yaml', modelRef('tiny'))
  await poll(() => tried.at(-1) === '3 ', 'later changes are read')
  t.equal(tried.length, after + 1)
})

test('what cannot be published is tried again while the source cannot be read', async (t) => {
  const folder = join(temporaryFolder(t), 'resources')
  mkdirSync(folder)
  save(folder, 'a.yaml', modelRef('small'))
  let isFull = false
  const { controller, unreadable } = await start(t, folder, {
    publish: async () => {
      if (isFull) throw new Error('disk full')
    },
  })
  isFull = true
  save(folder, 'b.yaml', modelRef('large'))
  await poll(() => controller.isFailing(), 'it cannot be published')
  rmSync(folder, { recursive: true })
  isFull = false
  await poll(() => !controller.isFailing(), 'it is published')
  await poll(() => unreadable.length > 1, 'and the missing folder reported')
})

test('publishes one snapshot at a time', async (t) => {
  const folder = temporaryFolder(t)
  save(folder, 'a.yaml', modelRef('small'))
  let underWay = 0
  const seen: string[] = []
  const { controller } = await start(t, folder, {
    async publish(snapshot) {
      underWay += 1
      if (underWay > 1) t.fail('two at the same time')
      const [key = ''] = snapshot.models.keys()
      if (key === 'llm/first') save(folder, 'a.yaml', modelRef('second'))
      seen.push(key)
      await new Promise((resolve) => setTimeout(resolve, 50))
      underWay -= 1
    },
  })
  save(folder, 'a.yaml', modelRef('first'))
  await poll(() => seen.at(-1) === 'llm/second', 'the last change is published')
  t.strictSame(seen, ['llm/small', 'llm/first', 'llm/second'])
  controller.close()
})

test('a folder that cannot be read is unavailable until it can', async (t) => {
  const folder = join(temporaryFolder(t), 'resources')
  mkdirSync(folder)
  save(folder, 'a.yaml', modelRef('small'))
  const source = createFolderSource(folder)
  let latest: Snapshot | undefined
  const pipeline = await startPipeline({
    source,
    async publish(snapshot) {
      latest = snapshot
    },
    report() {},
    onFailure() {},
  })
  t.teardown(() => pipeline.close())
  t.notOk(source.isUnavailable)
  renameSync(folder, `${folder}-away`)
  await poll(() => source.isUnavailable, 'it is gone')
  t.ok(latest?.models.has('llm/small'), 'the last state stays')
  renameSync(`${folder}-away`, folder)
  await poll(() => !source.isUnavailable, 'it is back')
})
