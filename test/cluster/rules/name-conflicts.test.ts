import { test } from 'tap'
import { statusOf } from '../../../src/cluster/rules/conditions.ts'
import { identityCondition, nameProblems } from '../../../src/cluster/rules/name-conflicts.ts'
import { createServedNames } from '../../../src/models/rules/served-names.ts'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import { modelRef, snapshotOf } from '../../support/documents.ts'

const since = (document: ReturnType<typeof modelRef>, creationTimestamp: string) => ({
  ...document,
  metadata: { ...document.metadata, creationTimestamp },
})
const compiled = snapshotOf(
  since(modelRef('one', {}, 'a'), '2026-01-01T00:00:00Z'),
  since(modelRef('new', {}, 'b'), '2026-02-01T00:00:00Z'),
  since(modelRef('ids', { modelIds: ['org/One', 'fine'] }, 'b'), '2026-02-01T00:00:00Z'),
  since(modelRef('one', {}, 'c'), '2026-03-01T00:00:00Z'),
  modelRef('silent', {}, 'c'),
)
const names = createServedNames()
const claim = (name: string) => [name, { namespace: 'a', server: 'a/one' }] as const
names.own(new Map([claim('org/One'), claim('lora')]), true)
names.set('a/one', ['lora', 'org/One', 'fine'], ['a'])
names.set('b/new', ['lora', 'mine', 'one', 'org/One'], ['b'])
const snapshot = names.onto(compiled, ({ key }) => key)

function judge(key: string, of: Snapshot = snapshot) {
  const { status, reason, message } = identityCondition(of.models.get(key)!, of)
  return `${status} ${reason} ${message}`.trim()
}

test('the newcomer of a name is reported', async (t) => {
  t.equal(
    judge('b/new'),
    'False ModelNameConflict 2 names belong to others: "lora" to a, "one" to a/one',
    'by its list',
  )
  t.equal(
    judge('b/ids'),
    'False ModelNameConflict 1 name belongs to others: "org/One" to a',
    'by its modelIds',
  )
  t.equal(
    judge('c/one'),
    'False ModelNameConflict 1 name belongs to others: "one" to a/one',
    'by its own name',
  )
  t.equal(
    judge('a/one'),
    'False ModelNameConflict 1 name belongs to others: "fine" to b/ids',
    'a name that a ModelRef declares and nobody owned before',
  )
  t.equal(
    judge('c/silent'),
    'Unknown AliasNotResolved the model server has not listed its names yet',
  )
  t.match(judge('c/silent', compiled), /^Unknown ConflictCheckFailed/)
  const steps = nameProblems(snapshot)
  let step = steps.next()
  while (!step.done) step = steps.next()
  t.strictSame(
    step.value.map((problem) => problem.slice(0, problem.indexOf(':'))),
    ['ModelRef/a/one', 'ModelRef/b/ids', 'ModelRef/b/new', 'ModelRef/c/one'],
  )
})

test('an id that names another namespace belongs to that one', async (t) => {
  const published = createServedNames()
  published.own(new Map(), true)
  const ids = ['publishers/a/models/one', 'publishers/b/models/own']
  published.set('b/new', [...ids, 'publishers/none'], ['b'])
  const view = published.onto(
    snapshotOf(
      modelRef('one', {}, 'a'),
      modelRef('new', {}, 'b'),
      modelRef('ids', { modelIds: ids }, 'b'),
    ),
    ({ key }) => key,
  )
  const message = 'False ModelNameConflict 1 name belongs to others: "publishers/a/models/one" to a'
  t.equal(judge('b/new', view), message, 'by its list')
  t.equal(judge('b/ids', view), message, 'by its modelIds')
})

test('a model whose names are its own is unique', async (t) => {
  const alone = createServedNames()
  alone.own(new Map(), true)
  alone.set('a/one', ['x'], ['a'])
  const view = alone.onto(snapshotOf(modelRef('one', {}, 'a')), ({ key }) => key)
  t.equal(judge('a/one', view), 'True UniqueIdentity')
  const [status] = statusOf(view, { identityOf: (model) => identityCondition(model, view) })
  t.match(status?.conditions[1], { type: 'ModelIdentityUnique', status: 'True' })
})

test('ten names and a count are shown, whatever the names are', async (t) => {
  const hostile = ['a"b', 'раypal', 'x'.repeat(512), ...Array.from('0123456789', (i) => `n${i}`)]
  const many = createServedNames()
  many.own(new Map(hostile.map(claim)), true)
  many.set('b/new', hostile, ['b'])
  const message = judge(
    'b/new',
    many.onto(compiled, ({ key }) => key),
  )
  t.match(message, /^False ModelNameConflict 13 names belong to others: /)
  t.match(message, / and 3 more$/)
  t.ok(message.includes('"a\\"b" to a'))
  t.equal(message.match(/ to a/g)?.length, 10)
  t.notMatch(message, /[^\x20-\x7e]/)
  t.ok(message.length < 1_024)
})
