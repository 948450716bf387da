import { test } from 'tap'
import { resourceStatuses } from '../../../src/cluster/rules/conditions.ts'
import { identityCondition } from '../../../src/cluster/rules/name-conflicts.ts'
import { modelRef, snapshotOf } from '../../support/documents.ts'

const since = (document: ReturnType<typeof modelRef>, creationTimestamp: string) => ({
  ...document,
  metadata: { ...document.metadata, creationTimestamp },
})
const hostile = ['раypal', 'x'.repeat(256), ...Array.from('0123456789', (i) => `n${i}`)]
const published = ['publishers/a/models/one', 'publishers/b/models/own']
const snapshot = snapshotOf(
  since(modelRef('one', {}, 'a'), '2026-01-01T00:00:00Z'),
  since(modelRef('many', { modelIds: hostile }, 'a'), '2026-01-01T00:00:00Z'),
  since(modelRef('ids', { modelIds: ['one', 'fine'] }, 'b'), '2026-02-01T00:00:00Z'),
  since(modelRef('new', { modelIds: hostile }, 'b'), '2026-02-01T00:00:00Z'),
  since(modelRef('of-a', { modelIds: published }, 'b'), '2026-02-01T00:00:00Z'),
  since(modelRef('one', {}, 'c'), '2026-03-01T00:00:00Z'),
)

function conditionOf(key: string) {
  const { status, reason, message } = identityCondition(snapshot.models.get(key)!, snapshot)
  return `${status} ${reason} ${message}`.trim()
}

test('the newcomer of a name is reported', async (t) => {
  const taken = 'False ModelNameConflict 1 name belongs to others: "one" to a/one'
  t.equal(conditionOf('b/ids'), taken, 'by its modelIds')
  t.equal(conditionOf('c/one'), taken, 'by its own name')
  t.equal(conditionOf('a/one'), 'True UniqueIdentity')
  const [status] = resourceStatuses(snapshot)
  t.match(status?.conditions[1], { type: 'ModelIdentityUnique', status: 'True' })
})

test('an id that names another namespace belongs to that one', async (t) => {
  const message = 'False ModelNameConflict 1 name belongs to others: "publishers/a/models/one" to a'
  t.equal(conditionOf('b/of-a'), message)
})

test('ten names and a count are shown, whatever the names are', async (t) => {
  const message = conditionOf('b/new')
  t.match(message, /^False ModelNameConflict 12 names belong to others: /)
  t.match(message, / and 2 more$/)
  t.match(message, /"n0" to a\/many, /)
  t.equal(message.match(/ to a/g)?.length, 10)
  t.notMatch(message, /[^\x20-\x7e]/)
  t.ok(message.length < 1_024)
})
