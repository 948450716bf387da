import { test } from 'tap'
import { type AccessQuestion, accessRows } from '../../src/decide/access-matrix.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'

const limits = [[50, '1m']] as const
const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('large', { modelIds: ['big'] }),
  modelRef('closed'),
  accessPolicy('open', ['llm/small'], { groups: ['team-a', 'team-b'], users: ['carol'] }),
  accessPolicy('more', ['llm/small', 'llm/large', 'llm/gone'], { groups: ['team-a', 'team-a'] }),
  subscription('basic', { groups: ['team-a'] }, { 'llm/small': limits, 'llm/gone': limits }),
  subscription('going', { users: ['carol'] }, { 'llm/small': limits }, { deleting: true }),
  subscription('alone', { users: ['dora'] }, { 'llm/large': limits }),
)

function ask(question: Partial<AccessQuestion> = {}) {
  const all = { model: undefined, subject: undefined, offset: 0, limit: 1_000 }
  const steps = accessRows(snapshot, { ...all, ...question })
  for (;;) {
    const step = steps.next()
    if (step.done !== true) continue
    return step.value.map(({ model, kind, name, policies, subscriptions }) =>
      [
        `${model.key} ${kind} ${name}`,
        policies.map(({ resource }) => resource.metadata.name).join(' '),
        subscriptions.map(({ subscription: { name }, pays }) => (pays ? name : `(${name})`)).join(),
      ].join(': '),
    )
  }
}

const large = ['llm/large group team-a: more: ', 'llm/large user dora: : alone']
const small = [
  'llm/small group team-a: more open: basic',
  'llm/small group team-b: open: ',
  'llm/small user carol: open: (going)',
]

test('each user and group has the policies and subscriptions for each model', async (t) => {
  t.strictSame(ask(), [...large, ...small])
})

test('one model, by key or by a name in a body, or one subject', async (t) => {
  t.strictSame(ask({ model: 'llm/small' }), small)
  t.strictSame(ask({ model: 'big' }), large)
  t.strictSame(ask({ model: 'llm/gone' }), [])
  t.strictSame(ask({ subject: 'team-a' }), [large[0], small[0]])
  t.strictSame(ask({ subject: 'team-b', model: 'llm/large' }), [])
  t.strictSame(ask({ subject: '__proto__' }), [])
})

test('a page has one row more than its limit, if there are more', async (t) => {
  const all = [...large, ...small]
  for (const limit of [1, 2, 4, 5, 9]) {
    for (const offset of [0, 1, 3, 5, 9]) {
      t.strictSame(ask({ limit, offset }), all.slice(offset, offset + limit + 1))
    }
  }
})
