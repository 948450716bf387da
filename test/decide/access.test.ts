import { test } from 'tap'
import { mayUse } from '../../src/decide/access.ts'

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
    t.equal(mayUse({ user, groups }, model), expected, JSON.stringify([user, groups]))
  }
})

test('nobody may use a model without a policy', async (t) => {
  t.equal(mayUse({ user: 'ada', groups: ['a'] }, { users: new Set(), groups: new Set() }), false)
})
