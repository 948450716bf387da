import { test } from 'tap'
import { findModelByName, modelsWithoutAccess } from '../../src/decide/name-lookup.ts'
import type { Caller } from '../../src/identity/rules/caller.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'

/** A caller of `team`, and how often its groups were read. */
function counted() {
  let reads = 0
  const caller: Caller = {
    by: 'key',
    user: 'ann',
    keyId: 'k',
    subscription: 'basic',
    get groups() {
      reads += 1
      return ['team']
    },
  }
  return { caller, reads: () => reads }
}

test('models that no policy opens do not slow down a name that they declare', async (t) => {
  const modelIds = ['gpt']
  const others = Array.from({ length: 500 }, (_, i) => modelRef(`m${i}`, { modelIds }, 'squatter'))
  const snapshot = snapshotOf(
    ...others,
    modelRef('small', { modelIds }),
    accessPolicy('open', ['llm/small'], { groups: ['team'] }),
    subscription('basic', { groups: ['team'] }, { 'llm/small': [[1, '1m']] }),
  )
  let looks = 0
  for (const model of snapshot.modelsByName.get('gpt') ?? []) {
    const { users } = model
    const look = () => {
      looks += 1
      return users
    }
    if (model.key !== 'llm/small') Object.defineProperty(model, 'users', { get: look })
  }
  const { caller, reads } = counted()
  const asking = { caller, requestedSubscription: undefined }
  for (const _ of [1, 2]) t.match(findModelByName('gpt', asking, snapshot), { key: 'llm/small' })
  t.equal(reads(), 2, 'only the open model is compared with the groups')
  t.equal(looks, 0, 'the others are not even looked at')
  const target = { modelKey: undefined, operation: '/v1/chat/completions', query: '' }
  const asked = { ...asking, target: target as never, bodyModel: 'gpt' }
  t.equal(modelsWithoutAccess(asked, snapshot).length, 500, 'a refusal names them')
  t.equal(reads(), 3)
})
