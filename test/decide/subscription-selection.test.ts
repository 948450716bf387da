import { test } from 'tap'
import {
  chooseSubscription,
  type Selection,
  selectForKey,
} from '../../src/decide/subscription-selection.ts'
import type { Snapshot } from '../../src/models/rules/snapshot.ts'
import { modelRef, snapshotOf, subscription, type WrittenDocument } from '../support/documents.ts'

const ada = { user: 'ada', groups: ['team-a'] }
const team = { groups: ['team-a'] }
const others = { groups: ['team-b'] }
const small = { 'llm/small': [[100, '1m']] } as const
const gone = { 'llm/gone': [[100, '1m']] } as const

function world(...subscriptions: readonly WrittenDocument[]): Snapshot {
  return snapshotOf(modelRef('small'), modelRef('large'), ...subscriptions)
}

function named(selection: Selection): string {
  return 'error' in selection ? selection.error : `=${selection.name}`
}

const several = world(
  subscription('mine', team, { ...small, 'llm/gone': [[1, '1m']] }),
  subscription('by-user', { users: ['ada'] }, { 'llm/large': [[1, '1m']] }),
  subscription('large', team, { 'llm/large': [[1, '1m']] }),
  subscription('foreign', others, small),
  subscription('failed', team, gone),
  subscription('leaving', team, small, { deleting: true }),
  subscription('nobody', {}, small),
)

test('a named subscription is checked in the documented order', async (t) => {
  for (const [requested, model, expected] of [
    ['mine', 'llm/small', '=mine'],
    ['models-as-a-service/mine', 'llm/small', '=mine'],
    ['by-user', 'llm/large', '=by-user'],
    ['none', 'llm/small', 'not_found'],
    ['', 'llm/small', 'not_found'],
    ['Mine', 'llm/small', 'not_found'],
    ['constructor', 'llm/small', 'not_found'],
    ['llm/mine', 'llm/small', 'not_found'],
    ['/mine', 'llm/small', 'not_found'],
    ['models-as-a-service/', 'llm/small', 'not_found'],
    ['models-as-a-service/models-as-a-service/mine', 'llm/small', 'not_found'],
    ['foreign', 'llm/small', 'access_denied'],
    ['foreign', 'llm/none', 'access_denied'],
    ['nobody', 'llm/small', 'access_denied'],
    ['mine', 'llm/large', 'model_not_in_subscription'],
    ['mine', 'llm/gone', 'model_unhealthy'],
    ['mine', 'small', 'model_not_in_subscription'],
    ['failed', 'llm/gone', 'model_unhealthy'],
    ['leaving', 'llm/small', '=leaving'],
    ['leaving', undefined, '=leaving'],
    ['failed', undefined, 'model_unhealthy'],
  ] as const) {
    t.equal(
      named(chooseSubscription(several, ada, requested, model)),
      expected,
      `${requested} ${model}`,
    )
  }
})

test('without a name exactly one subscription must fit', async (t) => {
  for (const [model, expected] of [
    ['llm/small', '=mine'],
    ['llm/large', 'multiple_subscriptions'],
    ['llm/gone', 'model_unhealthy'],
    ['llm/none', 'not_found'],
    [undefined, 'multiple_subscriptions'],
  ] as const) {
    t.equal(named(chooseSubscription(several, ada, undefined, model)), expected, String(model))
  }
  t.equal(
    named(chooseSubscription(several, { user: 'eve', groups: [] }, undefined, 'llm/small')),
    'not_found',
  )
})

test('priority never selects the subscription of a request', async (t) => {
  const snapshot = world(
    subscription('high', team, small, { priority: 100 }),
    subscription('low', team, small, { priority: 1 }),
  )
  t.equal(
    named(chooseSubscription(snapshot, ada, undefined, 'llm/small')),
    'multiple_subscriptions',
  )
})

test('a new key gets the preferred subscription', async (t) => {
  const one = (limit: number, window = '1m') => ({ 'llm/small': [[limit, window]] }) as const
  for (const [title, winner, loser] of [
    [
      'higher priority',
      subscription('z', team, one(1), { priority: 2 }),
      subscription('a', team, one(999), { priority: 1 }),
    ],
    [
      'a missing priority is 0',
      subscription('z', team, one(1), { priority: 1 }),
      subscription('a', team, one(999)),
    ],
    [
      'a negative priority is 0, the larger limit wins',
      subscription('z', team, one(2), { priority: -5 }),
      subscription('a', team, one(1), { priority: 0 }),
    ],
    [
      'the larger limit wins, whatever the window',
      subscription('z', team, one(1_000, '1h')),
      subscription('a', team, one(900, '1s')),
    ],
    [
      'the largest of several rates counts',
      subscription('z', team, {
        'llm/small': [
          [1, '1m'],
          [50, '1h'],
        ],
      }),
      subscription('a', team, {
        'llm/small': [
          [40, '1m'],
          [40, '1h'],
        ],
      }),
    ],
    [
      'the largest of several models counts',
      subscription('z', team, { 'llm/small': [[1, '1m']], 'llm/large': [[50, '1m']] }),
      subscription('a', team, { 'llm/small': [[40, '1m']], 'llm/large': [[40, '1m']] }),
    ],
    ['the name decides next', subscription('a', team, one(1)), subscription('b', team, one(1))],
    [
      'names are compared in byte order',
      subscription('a-b', team, one(1)),
      subscription('a.b', team, one(1)),
    ],
    ['digits before letters', subscription('a10', team, one(1)), subscription('a9', team, one(1))],
    ['a prefix first', subscription('team', team, one(1)), subscription('team-a', team, one(1))],
    [
      'its own before a better one of another owner',
      subscription('z', team, one(1)),
      subscription('a', others, one(9), { priority: 9 }),
    ],
    [
      'a Degraded one may be selected',
      subscription('z', team, { ...one(1), ...gone }, { priority: 2 }),
      subscription('a', team, one(1)),
    ],
    [
      'a Failed one is skipped',
      subscription('z', team, one(1)),
      subscription('a', team, gone, { priority: 9 }),
    ],
    [
      'one that is being deleted is skipped',
      subscription('z', team, one(1)),
      subscription('a', team, one(1), { priority: 9, deleting: true }),
    ],
  ] as const) {
    const { name } = winner.metadata
    t.equal(selectForKey(world(winner, loser), ada, undefined).name, name, title)
    t.equal(
      selectForKey(world(loser, winner), ada, undefined).name,
      name,
      `${title}, in reverse order`,
    )
  }
})

test('a new key may name its subscription', async (t) => {
  t.equal(selectForKey(several, ada, 'mine').name, 'mine')
  t.equal(selectForKey(several, ada, 'models-as-a-service/mine').name, 'mine')
  t.equal(selectForKey(several, ada, 'by-user').name, 'by-user')
  for (const unready of ['failed', 'leaving']) {
    t.throws(() => selectForKey(several, ada, unready), { code: 'subscription_not_ready' }, unready)
  }
})

test('other users’, unknown and missing subscriptions get the same refusal', async (t) => {
  const refusals = [
    ['foreign', ada],
    ['nobody', ada],
    ['none', ada],
    ['llm/mine', ada],
    ['failed', { user: 'eve', groups: [] }],
    [undefined, { user: 'eve', groups: [] }],
  ] as const
  const told = new Set<string>()
  for (const [requested, person] of refusals) {
    try {
      selectForKey(several, person, requested)
      t.fail(`${requested} was granted`)
    } catch (error) {
      const { code, message } = error as { code: string; message: string }
      told.add(`${code} ${message}`)
      t.equal(code, 'invalid_subscription')
    }
  }
  t.equal(told.size, 1)
})
