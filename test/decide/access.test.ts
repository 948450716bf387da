import { test } from 'tap'
import { mayUseModel, ownedSubscriptions } from '../../src/decide/access.ts'
import {
  accessibleSubscriptions,
  chooseSubscription,
} from '../../src/decide/subscription-selection.ts'
import { indexOwners, noOwners } from '../../src/models/rules/compile.ts'
import { compile } from '../support/compile.ts'
import { modelRef, resourceOf, snapshotOf, subscription } from '../support/documents.ts'

const model = { users: new Set(['ada']), groups: new Set(['team-a', 'team-b']) }

test('a matching user or any matching group gives access', async (t) => {
  for (const [user, groups, expected] of [
    ['ada', [], true],
    ['ada', ['other'], true],
    ['bob', ['team-a'], true],
    ['bob', ['other', 'team-b'], true],
    ['bob', [], false],
    ['bob', ['other'], false],
    ['Ada', [], false],
    ['bob', ['team-A', 'team-', 'team-a ', ''], false],
    ['team-a', [], false],
    ['bob', ['ada'], false],
    ['', [''], false],
  ] as const) {
    t.equal(mayUseModel({ user, groups }, model), expected, JSON.stringify([user, groups]))
  }
})

test('nobody may use a model without a policy', async (t) => {
  t.equal(
    mayUseModel({ user: 'ada', groups: ['a'] }, { users: new Set(), groups: new Set() }),
    false,
  )
})

const limits = { 'llm/small': [[1, '1m']] } as const
const snapshot = snapshotOf(
  modelRef('small'),
  subscription('by-user', { users: ['ada', 'team'] }, limits),
  subscription('by-group', { groups: ['team', 'a,b'] }, limits),
  subscription('by-both', { users: ['ada'], groups: ['team', 'other'] }, limits),
  subscription('foreign', { users: ['bob'], groups: ['toString'] }, limits),
  subscription('nobody', {}, limits),
)

function namesOf(user: string, ...groups: readonly string[]): readonly string[] {
  return [...ownedSubscriptions(snapshot.owners, { user, groups })].map(({ name }) => name).sort()
}

test('subscriptions are found by user and by group, each once', async (t) => {
  t.strictSame(namesOf('ada'), ['by-both', 'by-user'])
  t.strictSame(namesOf('ada', 'team', 'other', 'team'), ['by-both', 'by-group', 'by-user'])
  t.strictSame(namesOf('eve', 'other'), ['by-both'])
  t.strictSame(namesOf('team'), ['by-user'], 'a user is not a group')
  t.strictSame(namesOf('eve', 'ada'), [], 'a group is not a user')
  t.strictSame(namesOf('eve', 'a', 'b'), [], 'a group name is not split')
  t.strictSame(namesOf('eve', 'a,b'), ['by-group'])
  t.strictSame(namesOf('constructor', '__proto__'), [])
  t.strictSame([...ownedSubscriptions(noOwners, { user: 'ada', groups: ['team'] })], [])
})

test('the index changes with the subscriptions', async (t) => {
  const model = resourceOf(modelRef('small'))
  const mine = resourceOf(subscription('mine', { users: ['ada'] }, limits))
  const before = compile([model, mine])
  t.equal(compile([mine, model], before).owners, before.owners, 'no subscription has changed')
  const moved = resourceOf(subscription('mine', { users: ['bob'] }, limits))
  const after = compile([model, moved], before)
  const ask = (user: string) =>
    chooseSubscription(after, { user, groups: [] }, undefined, 'llm/small')
  t.match(ask('bob'), { name: 'mine' })
  t.match(ask('ada'), { error: 'not_found' })
})

test('of ten thousand subscriptions only the caller’s own are examined', async (t) => {
  const many = Array.from({ length: 10_000 }, (_, i) =>
    resourceOf(subscription(`s${i}`, { users: [`user-${i}`], groups: [`group-${i}`] }, limits)),
  )
  const world = compile([resourceOf(modelRef('small')), ...many])
  const person = { user: 'user-7', groups: ['group-9000'] }
  const names = accessibleSubscriptions(world, person).map(({ name }) => name)
  t.strictSame(names, ['s7', 's9000'])
  t.equal([...ownedSubscriptions(world.owners, person)].length, 2)
  const steps = indexOwners(world.subscriptions.values())
  let count = 0
  while (!steps.next().done) count += 1
  t.equal(count, 10_000, 'the index is built in steps')
})
