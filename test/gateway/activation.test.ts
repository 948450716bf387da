import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'tap'
import { createActivation } from '../../src/gateway/activation.ts'
import type { ClusterFile } from '../../src/gateway/cluster-file.ts'
import type { SecretFiles } from '../../src/gateway/secret-files.ts'
import { modelRef, snapshotOf } from '../support/documents.ts'

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
