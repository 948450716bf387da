import t from 'tap'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { envoyPath } from '../../support/envoy-binary.ts'
import { startEnforcing } from '../../support/kubernetes/enforcing.ts'
import { startLoad, tally } from '../../support/steady-load.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const crowd = 2_000
const rounds = 5

t.test(
  'among 2,000 models, a new one works as soon as it is Enforced',
  { skip, timeout: 600_000 },
  async (t) => {
    const { world, model, isEnforced, mint, chatOf } = await startEnforcing(t, crowd)
    const took: number[] = []
    for (let round = 0; round < rounds; round += 1) {
      const name = `fresh-${round}`
      const team = { groups: ['team'] }
      const appliedAt = performance.now()
      await world.apply(accessPolicy(name, [`llm/${name}`], team))
      await world.apply(subscription(name, team, { [`llm/${name}`]: [[1_000_000, '1h']] }))
      await world.apply(modelRef(name, { backendUrl: model.url }))
      await isEnforced(name)
      await isEnforced(name, 'trlp')
      took.push(performance.now() - appliedAt)
      const key = await mint(name)
      const load = startLoad(200, () => chatOf(key, name))
      await new Promise((settle) => setTimeout(settle, 3_000))
      const shots = await load.stop()
      t.strictSame(tally(shots), { 200: shots.length })
    }
    t.comment(`Enforced after ${took.map((ms) => ms.toFixed(0)).join(', ')} ms`)
  },
)
