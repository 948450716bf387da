import { test } from 'tap'
import { newCounters, removedLimits } from '../../../src/models/rules/new-counters.ts'
import { modelRef, snapshotOf, subscription } from '../../support/documents.ts'

const owner = { groups: ['a', 'b', 'c'] }
const hourly = { name: 'hourly', per: 'group', limit: 5, window: '1h' }
const daily = { name: 'daily', limit: 5, window: 'day' }

function world(limits: readonly object[], groups = owner.groups, calendar: object = {}) {
  const team = subscription('team', { groups }, { 'llm/small': [[5, '1m']] })
  return snapshotOf(
    { ...team, spec: { ...team.spec, limits, calendar } },
    modelRef('small', { limits: [{ ...daily, per: 'model' }] }),
    {
      ...{ apiVersion: 'tollgate.dev/v1alpha1', kind: 'Tenant' },
      ...{ metadata: { name: 'default-tenant' }, spec: { limits: [daily] } },
    },
  )
}

const before = world([hourly, daily])

test('counters go on while name, kind, whom and window stay', async (t) => {
  for (const after of [
    before,
    world([daily, hourly]),
    world([{ ...hourly, limit: 9, enforce: false }, daily, { ...daily, name: 'more' }]),
    world([hourly, daily], ['c', 'b', 'd', 'a'].slice(1).toSorted()),
    world([hourly]),
    snapshotOf(),
  ]) {
    t.strictSame(newCounters(before, after), [])
  }
})

test('what is left out is named, unless it is there by another name', async (t) => {
  t.strictSame(removedLimits(before, world([hourly])), [
    'Subscription team: the limit daily is gone',
  ])
  t.strictSame(removedLimits(before, world([{ ...hourly, name: 'each-hour' }, daily])), [])
  t.strictSame(removedLimits(before, world([{ ...hourly, window: 'week' }, daily])), [])
  t.equal(removedLimits(before, snapshotOf()).length, 4)
})

test('what begins new counters is named', async (t) => {
  const begins = (name: string) => `Subscription team: the limit ${name} begins new counters`
  t.strictSame(newCounters(before, world([{ ...hourly, name: 'each-hour' }, daily])), [
    `${begins('each-hour')}, if it is hourly by another name`,
  ])
  t.strictSame(newCounters(before, world([{ ...hourly, per: 'user', of: 'input' }, daily])), [
    `${begins('hourly')}, because it was tokens per group in 3600000 and is input per user in 3600000`,
  ])
  t.strictSame(
    newCounters(before, world([hourly, daily], owner.groups, { timeZone: 'Asia/Tokyo' })),
    [
      `${begins('daily')}, because it was tokens per user in day@UTC and is tokens per user in day@Asia/Tokyo`,
    ],
  )
  for (const [was, is, more] of [
    [
      { ...hourly, per: 'subscription' },
      hourly,
      '; owners by user name continue the earlier counter',
    ],
    [
      hourly,
      { ...hourly, per: 'subscription' },
      '; owners by user name continue the earlier counter',
    ],
    [hourly, { ...hourly, per: 'user' }, ''],
    [hourly, { ...hourly, per: 'subscription', window: '2h' }, ''],
    [daily, { ...daily, per: 'group' }, '; equal names continue the earlier counter'],
    [daily, { ...daily, per: 'subscription' }, ''],
  ] as const) {
    const [sentence = ''] = newCounters(world([was]), world([is]))
    t.match(sentence, /new counters, because it was /)
    t.equal(/;.*|$/.exec(sentence)?.[0], more, sentence)
  }
  const named = subscription('squad', owner, { 'llm/small': [[5, '1m']] }, { named: [hourly] })
  t.strictSame(newCounters(before, snapshotOf(modelRef('small'), named)), [
    'Subscription squad: the limit hourly begins new counters, if it is that of Subscription team',
  ])
  for (const groups of ['bac', 'dabc', 'adb']) {
    t.strictSame(newCounters(before, world([hourly, daily], [...groups])), [
      'Subscription team lists its groups in another order, or another one before them: users in several of them use the counter of another group',
    ])
  }
})
