import { test } from 'tap'
import type { Charge } from '../../src/usage/rules/usage.ts'
import { createWriterListeners } from '../../src/usage/writer-listeners.ts'
import { endedLine } from '../support/ended-line.ts'

const { usage } = endedLine()

function createWorld() {
  const said: unknown[] = []
  const listeners = createWriterListeners({
    health: { tell: () => said.push('health') },
    metrics: {
      onEnded: () => said.push('ended'),
      onAdmitted: () => said.push('admitted'),
      onUnusable: (model) => said.push(['unusable', model]),
      onCounted: (_, counted) => said.push(['counted', counted]),
    },
    noteKeyUse: (keyId, at) => said.push(['key used', keyId, at]),
    noteUse: ({ user }) => said.push(['used by', user]),
    log: { warn: (fields: object) => said.push(fields) },
  })
  return { said, listeners }
}

/** What is said of a response that is charged this. */
function charged(charge: Charge): readonly unknown[] {
  const { said, listeners } = createWorld()
  listeners.onCharged(usage, charge)
  return said
}

test('only a response that is charged counts', async (t) => {
  t.strictSame(charged({ tokens: 40, unusable: false, estimated: 3 }), [
    ['counted', { tokens: 40, estimated: 3 }],
    ['used by', 'ada'],
  ])
  t.strictSame(charged({ tokens: 0, unusable: false, estimated: 0 }), [])
  t.strictSame(charged({ tokens: undefined, unusable: false, estimated: 0 }), [])
})

test('a response without usable usage is logged, whatever it is charged', async (t) => {
  const unusable = ['unusable', 'llm/small']
  const logged = { code: 'usage_unusable', model: 'llm/small' }
  t.strictSame(charged({ tokens: undefined, unusable: true, estimated: 0 }), [
    unusable,
    { ...logged, estimated: 0 },
  ])
  t.strictSame(charged({ tokens: 9, unusable: true, estimated: 9 }).slice(0, 2), [
    unusable,
    { ...logged, estimated: 9 },
  ])
  const partly = { tokens: 9, unusable: true, estimated: 4 }
  t.strictSame(charged(partly)[1], { ...logged, estimated: 4 }, 'five are reported')
})

test('a key is in use, even if no Check has seen it', async (t) => {
  const { said, listeners } = createWorld()
  listeners.onAdmitted(usage, 7)
  listeners.onAdmitted({ ...usage, keyId: 'k1' }, 8)
  t.strictSame(said, ['admitted', 'admitted', ['key used', 'k1', 8]])
})
