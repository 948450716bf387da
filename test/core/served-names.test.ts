import { test } from 'tap'
import type { Caller } from '../../src/core/caller.ts'
import { authorize } from '../../src/core/decide.ts'
import { pathRules } from '../../src/core/operations.ts'
import { createServedNames, takenOf } from '../../src/core/served-names.ts'
import { readTarget } from '../../src/core/target.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../support/documents.ts'

const team = { groups: ['team-a'] }
const rate = [[1, '1m']] as const
const ada = { by: 'key', user: 'ada', groups: ['team-a'], keyId: 'k', subscription: 'all' } as const
const eve: Caller = { ...ada, groups: ['team-b'], subscription: 'theirs' }
const open = ['llm/one', 'llm/two', 'llm/named', 'llm/renamed', 'llm/hosted']
const snapshot = snapshotOf(
  modelRef('one'),
  modelRef('two'),
  modelRef('named', { modelIds: ['org/Named'] }),
  modelRef('renamed', { upstreamModel: 'org/Renamed' }),
  modelRef('hosted', { modelRef: { kind: 'ExternalModel', name: 'hosted' } }),
  modelRef('shut'),
  accessPolicy('open', open, team),
  accessPolicy('theirs', ['llm/shut', 'llm/two'], { groups: ['team-b'] }),
  subscription('all', team, Object.fromEntries(open.map((key) => [key, rate]))),
  subscription('few', team, { 'llm/two': rate }),
  subscription('theirs', { groups: ['team-b'] }, { 'llm/shut': rate, 'llm/two': rate }),
)
/** Names as if each ModelRef had a server of its own with this list. */
function given(lists: Record<string, readonly string[]>) {
  const names = createServedNames()
  for (const [server, list] of Object.entries(lists)) names.set(server, list)
  const shown = names.onto(snapshot, ({ resource }) => resource.metadata.name)
  function ask(bodyModel: string, caller: Caller = ada): string {
    const target = readTarget('/v1/chat/completions')!
    const request = { caller, target, method: 'POST', bodyModel, requestedSubscription: undefined }
    const decision = authorize(request, shown, pathRules())
    return decision.allowed ? decision.model.key : decision.code
  }
  return { names, ask }
}

test('a name that a server lists is an id of its model', async (t) => {
  const { names, ask } = given({ one: ['org/One', 'lora'] })
  t.equal(ask('org/One'), 'llm/one')
  t.equal(ask('lora'), 'llm/one')
  t.equal(ask('one'), 'llm/one')
  t.equal(ask('org/Two'), 'model_not_allowed')
  t.ok(names.set('one', ['org/Two']))
  t.notOk(names.set('one', ['org/Two']), 'the list has not changed')
  t.equal(ask('org/Two'), 'llm/one', 'the new list is used')
  t.equal(ask('lora'), 'model_not_allowed')
})

test('configured names take precedence, shared names are ambiguous', async (t) => {
  const { ask } = given({
    one: ['org/Named', 'named', 'renamed', 'both', 'theirs'],
    two: ['both', 'one'],
    shut: ['theirs', 'org/Named'],
  })
  t.equal(ask('org/Named'), 'llm/named')
  t.equal(ask('named'), 'llm/named')
  t.equal(ask('renamed'), 'llm/renamed')
  t.equal(ask('one'), 'llm/one')
  t.equal(ask('both'), 'model_ambiguous')
  t.equal(
    ask('both', { ...ada, subscription: 'few' }),
    'llm/two',
    'the one that the subscription covers',
  )
  t.equal(
    ask('theirs'),
    'llm/one',
    'a model that the caller may not use does not make a name ambiguous',
  )
  t.equal(ask('theirs', eve), 'llm/shut')
  t.equal(ask('org/Named', eve), 'llm/shut', 'nor does its configured name')
})

test('a resource with names of its own takes none from its server', async (t) => {
  const list = ['listed']
  const { ask } = given({ named: list, renamed: list, hosted: list })
  t.equal(ask('listed'), 'model_not_allowed')
})

test('lists are limited in length', async (t) => {
  const entries = Array.from({ length: 3_000 }, (_, i) => ({ id: `m-${9_999 - i}` }))
  t.equal(takenOf(entries).length, 1_000)
  t.equal(takenOf(entries)[0]?.id, 'm-7000', 'the first by name, in whatever order they arrive')
  const names = createServedNames()
  const list = (from: number) => Array.from({ length: 1_000 }, (_, i) => `n-${from}-${i}`)
  for (let server = 0; server < 150; server += 1) names.set(`s-${server}`, list(server))
  t.equal(names.of('s-99').length, 1_000)
  t.equal(names.of('s-100').length, 0)
  names.set('s-0', [])
  names.set('s-101', list(101))
  t.equal(names.of('s-101').length, 1_000, 'freed space can be used again')
})
