import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'tap'
import { createActivation } from '../../src/gateway/activation.ts'
import { type ClusterFile, createClusterFile } from '../../src/gateway/cluster-file.ts'
import type { SecretFiles } from '../../src/gateway/secret-files.ts'
import type { Resource } from '../../src/kinds/resources.ts'
import type { Snapshot } from '../../src/models/rules/snapshot.ts'
import { compile } from '../support/compile.ts'
import { accessPolicy, modelRef, resourceOf, snapshotOf } from '../support/documents.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('policies and removals are in force although clusters cannot be written', async (t) => {
  const folder = temporaryFolder(t)
  const directory = join(folder, 'envoy')
  const clusterFile = createClusterFile({
    directory,
    async readLoadedClusters(named) {
      const { version_info: version } = JSON.parse(
        readFileSync(join(directory, 'clusters.json'), 'utf8'),
      )
      return { version, warming: new Set(), resolved: new Set(named) }
    },
    ...{ onLoaded() {}, onSeen() {}, onOverdue() {} },
    onFault: (error) => t.fail(String(error)),
  })
  t.teardown(() => clusterFile.close())
  const secrets = { write: async () => {} } as unknown as SecretFiles
  const table = { suspend: async () => {}, resume() {} }
  let told: readonly Resource[] = []
  const note = (resources: readonly Resource[]): void => {
    told = resources
  }
  const activation = createActivation(clusterFile, secrets, note, table)
  const publish = (...resources: readonly Resource[]) =>
    activation.publish({ fresh: compile(resources), resources, refused: [] })
  const [small, large] = [modelRef('small'), modelRef('large')].map(resourceOf)
  const open = resourceOf(accessPolicy('open', ['llm/small'], { users: ['al'] }))
  if (small === undefined || large === undefined) throw new Error('two models')
  await publish(small, open)
  rmSync(directory, { recursive: true })
  writeFileSync(directory, 'in its place')
  const seen = () => [activation.snapshot().models.size, activation.snapshot().policies.size]
  await t.rejects(publish(small, open, large), { code: 'EEXIST' })
  t.strictSame(seen(), [1, 1], 'a new model waits')
  t.strictSame(['llm/small', 'llm/large'].map(activation.isHeld), [false, true])
  await t.rejects(publish(small, large), { code: 'EEXIST' })
  t.strictSame(seen(), [1, 0], 'a removal does not')
  t.strictSame(told, [small, large], 'its resources are told, for the audit trail')
})

test('nobody decides by an earlier snapshot when a later one is told to be in force', async (t) => {
  const steps: string[] = []
  const quiet: PromiseWithResolvers<void>[] = []
  const clusterFile = {
    ...{ waiting: new Map(), unseen: new Map(), *planInSteps() {} },
    ...{ write: async () => {}, settled: async () => {} },
  }
  const secrets = { write: async () => {} }
  const table = {
    async suspend() {
      steps.push('suspend')
      const one = Promise.withResolvers<void>()
      quiet.push(one)
      await one.promise
    },
    resume: () => void steps.push('resume'),
  }
  const activation = createActivation(
    clusterFile as unknown as ClusterFile,
    secrets as unknown as SecretFiles,
    () => void steps.push('told'),
    table,
  )
  const [one, two] = [snapshotOf(modelRef('one')), snapshotOf(modelRef('two'))]
  const publish = async (fresh: typeof one) => {
    const published = activation.publish({ fresh, resources: [], refused: [] })
    for (let turn = 0; turn < 20; turn += 1) await nextTurn()
    return published
  }
  const first = publish(one)
  await nextTurn()
  for (let turn = 0; turn < 20; turn += 1) await nextTurn()
  quiet[0]?.resolve()
  await first
  t.equal(activation.snapshot(), one)
  const second = publish(two)
  for (let turn = 0; turn < 20; turn += 1) await nextTurn()
  t.equal(activation.snapshot(), one, 'while some may decide by it')
  quiet[1]?.resolve()
  await second
  t.equal(activation.snapshot(), two)
  t.strictSame(steps, ['suspend', 'told', 'resume', 'suspend', 'told', 'resume'])
})

test('files that cannot be written for a while keep no removal waiting', async (t) => {
  const written = Promise.withResolvers<void>()
  let writes = 0
  const clusterFile = {
    ...{ waiting: new Map(), unseen: new Map(), *planInSteps() {} },
    write: () => (writes++ === 0 ? Promise.resolve() : written.promise),
    settled: async () => {},
  }
  const secrets = { write: async () => {} }
  const table = { suspend: async () => {}, resume() {} }
  const activation = createActivation(
    clusterFile as unknown as ClusterFile,
    secrets as unknown as SecretFiles,
    () => {},
    table,
    20,
  )
  const publish = (fresh: Snapshot) => activation.publish({ fresh, resources: [], refused: [] })
  const [one, two, three] = [modelRef('one'), modelRef('two'), modelRef('three')].map((model) =>
    snapshotOf(model),
  ) as [Snapshot, Snapshot, Snapshot]
  await publish(one)
  await t.rejects(publish(two), { message: /a disk or a Secret does not respond/ })
  t.equal(activation.snapshot(), two)
  const last = publish(three)
  await t.rejects(last, { message: /a disk or a Secret does not respond/ })
  t.equal(activation.snapshot(), three)
  written.resolve()
  await publish(three)
  t.equal(writes, 4, 'each in turn')
})
