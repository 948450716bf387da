import { test } from 'tap'
import { authorize } from '../../../src/decide/decide.ts'
import { closedModels } from '../../../src/decide/named-models.ts'
import { refusalReason } from '../../../src/decide/refusal-reason.ts'
import type { Caller } from '../../../src/identity/rules/caller.ts'
import type { NameOwner } from '../../../src/models/rules/name-owners.ts'
import { createServedNames, takenOf } from '../../../src/models/rules/served-names.ts'
import type { Model, Snapshot } from '../../../src/models/rules/snapshot.ts'
import { pathRules } from '../../../src/operations/operations.ts'
import { readTarget } from '../../../src/operations/target.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'

const team = { groups: ['team-a'] }
const rate = [[1, '1m']] as const
const ada = { by: 'key', user: 'ada', groups: ['team-a'], keyId: 'k', subscription: 'all' } as const
const eve: Caller = { ...ada, groups: ['team-b'], subscription: 'theirs' }
const open = ['llm/one', 'llm/two', 'llm/named', 'llm/renamed', 'llm/hosted']
const east = ['east/new', 'east/taker']
const usual = [
  modelRef('one'),
  modelRef('two'),
  modelRef('named', { modelIds: ['org/Named'] }),
  modelRef('renamed', { upstreamModel: 'org/Renamed' }),
  modelRef('hosted', { modelRef: { kind: 'ExternalModel', name: 'hosted' } }),
  modelRef('shut'),
  modelRef('new', {}, 'east'),
  accessPolicy('open', [...open, ...east], team),
  accessPolicy('theirs', ['llm/shut', 'llm/two', 'east/new'], { groups: ['team-b'] }),
  subscription('all', team, Object.fromEntries([...open, ...east].map((key) => [key, rate]))),
  subscription('few', team, { 'llm/two': rate }),
  subscription('east', team, { 'east/new': rate }),
  subscription('theirs', { groups: ['team-b'] }, { 'llm/shut': rate, 'east/new': rate }),
]
const serverOf = ({ resource }: Model): string => resource.metadata.name

test('tells of each change that decisions depend on', (t) => {
  let changes = 0
  const names = createServedNames({
    onChange() {
      changes += 1
    },
  })
  const told = (act: () => unknown) => {
    const before = changes
    act()
    return changes - before
  }
  const owner = { namespace: 'llm', server: 'one' }
  t.equal(
    told(() => names.set('one', ['a'], ['llm'])),
    1,
  )
  t.equal(
    told(() => names.set('one', ['a'], ['llm'])),
    0,
    'the same list',
  )
  t.equal(
    told(() => names.own(new Map([['a', owner]]), true)),
    1,
    'owners, and that all are known',
  )
  t.equal(
    told(() => names.own(new Map([['a', owner]]), true)),
    0,
  )
  t.equal(
    told(() => names.own(new Map([['a', undefined]]))),
    1,
  )
  t.equal(
    told(() => names.recognise('one', [{ isLlamaCpp: true }])),
    1,
  )
  t.equal(
    told(() => names.recognise('one', [{ isLlamaCpp: true }])),
    0,
  )
  t.equal(
    told(() => names.forget('one')),
    1,
  )
  t.end()
})

/**
 * Names as if each ModelRef had a server of its own with this list. The first to list a name owns
 * it, unless `owners` says otherwise.
 */
function given(
  lists: Record<string, readonly string[]>,
  owners: Record<string, NameOwner> = {},
  snapshot: Snapshot = snapshotOf(...usual),
) {
  const names = createServedNames()
  const namespaceOf = (server: string) =>
    [...snapshot.models.values()].find((model) => serverOf(model) === server)?.resource.metadata
      .namespace ?? ''
  const set = (server: string, list: readonly string[]) => {
    const namespace = namespaceOf(server)
    const isNew = names.set(server, list, [namespace])
    const free = list.filter((name) => !names.owners.has(name) && !snapshot.modelsByName.has(name))
    names.own(new Map(free.map((name) => [name, owners[name] ?? { namespace, server }])))
    return isNew
  }
  for (const [server, list] of Object.entries(lists)) set(server, list)
  const shown = names.onto(snapshot, serverOf)
  function ask(bodyModel: string, caller: Caller = ada): string {
    const target = readTarget('/v1/chat/completions')!
    const request = { caller, target, method: 'POST', bodyModel, requestedSubscription: undefined }
    const decision = authorize(request, shown, pathRules())
    return decision.allowed ? decision.model.key : decision.code
  }
  /** Why it is refused, for the log. */
  function reason(bodyModel: string, caller: Caller = ada): string | undefined {
    const denial = { allowed: false, code: 'model_not_allowed' } as const
    const target = readTarget('/v1/chat/completions')!
    return refusalReason(denial, () => closedModels({ caller, target, bodyModel }, shown))
  }
  return { names, ask, set, reason }
}

test('the reason of a refusal names the closed models of a name, and their policies', async (t) => {
  const world = snapshotOf(...usual, modelRef('unnamed'))
  const { ask, reason } = given({ shut: ['org/Shut'], new: ['org/New'], unnamed: ['x'] }, {}, world)
  const no = 'no AccessPolicy opens the model to the caller'
  for (const name of ['org/Shut', 'shut', 'publishers/llm/models/shut']) {
    t.equal(ask(name), 'model_not_allowed')
    t.equal(reason(name), `${no}: llm/shut is named by theirs`)
  }
  const nobody: Caller = { ...ada, user: 'bob', groups: [] }
  t.equal(reason('org/New', nobody), `${no}: east/new is named by open, theirs`)
  t.equal(reason('x'), `${no}: none names llm/unnamed`)
  t.equal(reason('org/Nothing'), 'no such model')
  const several = snapshotOf(
    ...['a', 'b', 'c', 'd'].map((name) => modelRef(name, { modelIds: ['same'] }, name)),
  )
  const shown = 'none names a/a, none names b/b, none names c/c and 1 more'
  t.equal(given({}, {}, several).reason('same'), `${no}: ${shown}`)
})

test('a name that a server lists is an id of its model', async (t) => {
  const { set, ask } = given({ one: ['org/One', 'lora'] })
  t.equal(ask('org/One'), 'llm/one')
  t.equal(ask('lora'), 'llm/one')
  t.equal(ask('one'), 'llm/one')
  t.equal(ask('org/Two'), 'model_not_allowed')
  t.ok(set('one', ['org/Two']))
  t.notOk(set('one', ['org/Two']), 'the list has not changed')
  t.equal(ask('org/Two'), 'llm/one', 'the new list is used')
  t.equal(ask('lora'), 'model_not_allowed')
})

test('a name that a ModelRef declares is not looked up among served ones', async (t) => {
  const { ask } = given({
    one: ['org/Named', 'named', 'renamed', 'shut'],
    two: ['one'],
    shut: ['org/Named'],
    new: ['shut'],
  })
  t.equal(ask('org/Named'), 'llm/named')
  t.equal(ask('named'), 'llm/named')
  t.equal(ask('renamed'), 'llm/renamed')
  t.equal(ask('one'), 'llm/one')
  t.equal(ask('shut'), 'model_not_allowed', 'who may not use it is not served by another model')
  t.equal(ask('org/Named', eve), 'model_not_allowed')
})

test('of two models of one namespace the earlier one serves', async (t) => {
  const { ask } = given({ two: ['both'], one: ['both', 'theirs'], shut: ['theirs'] })
  t.equal(ask('both'), 'llm/one')
  t.equal(ask('both', { ...ada, subscription: 'few' }), 'llm/two', 'the subscription tells')
  t.equal(ask('theirs'), 'llm/one')
  t.equal(ask('theirs', eve), 'llm/shut')
})

test('a name without an owner is not served', async (t) => {
  const { names, ask } = given({ one: ['org/One'] })
  names.own(new Map([['org/One', undefined]]))
  t.equal(ask('org/One'), 'model_not_allowed')
})

test('a list of another namespace takes no name and blocks none', async (t) => {
  const { ask } = given({ one: ['org/One'], new: ['org/One'] })
  t.equal(ask('org/One'), 'llm/one')
  t.equal(ask('org/One', { ...ada, subscription: 'east' }), 'east/new', 'the subscription tells')
  t.equal(ask('org/One', eve), 'east/new', 'who may not use the owner is served by the other')
})

test('another namespace that declares a name does not take it', async (t) => {
  for (const taker of [
    modelRef('taker', { modelIds: ['org/One', 'taken'] }, 'east'),
    modelRef('org-one', {}, 'east'),
  ]) {
    const snapshot = snapshotOf(...usual, taker)
    const name = taker.metadata.name === 'taker' ? 'org/One' : 'org-one'
    // It belonged to llm before the newcomer came.
    const { names, ask } = given({ one: [name] }, {}, snapshot)
    names.own(new Map([[name, { namespace: 'llm', server: 'one' }]]))
    t.equal(ask(name), 'llm/one')
  }
})

test('another namespace that declares a name serves it to callers of its own', async (t) => {
  const snapshot = snapshotOf(
    ...usual,
    modelRef('taker', { modelIds: ['org/One'] }, 'east'),
    accessPolicy('taker', ['east/taker'], { groups: ['team-b'] }),
    subscription('takers', { groups: ['team-b'] }, { 'east/taker': rate }),
  )
  const { names, ask } = given({ one: ['org/One'], new: ['org/One'] }, {}, snapshot)
  names.own(new Map([['org/One', { namespace: 'llm', server: 'one' }]]))
  t.equal(ask('org/One'), 'llm/one')
  const own: Caller = { ...eve, subscription: 'takers' }
  t.equal(ask('org/One', own), 'east/taker', 'declared, so it is not looked up among lists')
})

test('the ModelRef of the owner that declares a name comes before its lists', async (t) => {
  const taker = modelRef('taker', { modelIds: ['org/Named'] }, 'east')
  const mixed = subscription('mixed', team, { 'llm/one': rate, 'east/taker': rate })
  const snapshot = snapshotOf(...usual, taker, mixed)
  const { names, ask } = given({ one: ['org/Named'] }, {}, snapshot)
  names.own(new Map([['org/Named', { namespace: 'llm', server: 'one' }]]))
  t.equal(ask('org/Named'), 'llm/named')
  t.equal(
    ask('org/Named', { ...ada, subscription: 'mixed' }),
    'east/taker',
    'the one that it covers',
  )
})

test('an owner that lost a name for a while is not replaced', async (t) => {
  const { names, ask, set } = given({ one: ['org/One'], new: ['org/One'] })
  set('one', [])
  t.equal(ask('org/One'), 'model_not_allowed', 'its server does not list it now')
  t.equal(ask('org/One', eve), 'east/new', 'who never used the owner is not affected')
  names.own(new Map([['org/One', undefined]]))
  t.equal(ask('org/One'), 'model_not_allowed', 'it belongs to nobody')
  names.own(new Map([['org/One', { namespace: 'east', server: 'new' }]]))
  t.equal(ask('org/One'), 'east/new')
})

test('an owner whose ModelRef is gone is not replaced', async (t) => {
  const snapshot = snapshotOf(...usual.slice(1))
  const { ask } = given(
    { new: ['org/One'] },
    { 'org/One': { namespace: 'llm', server: 'one' } },
    snapshot,
  )
  t.equal(ask('org/One'), 'model_not_allowed')
  t.equal(ask('org/One', eve), 'east/new')
})

test('a resource with names of its own takes none from its server', async (t) => {
  const list = ['listed']
  const { ask } = given({ named: list, renamed: list, hosted: list })
  t.equal(ask('listed'), 'model_not_allowed')
})

const list = (from: number, length = 1_000) => Array.from({ length }, (_, i) => `n-${from}-${i}`)

test('lists are limited in length', async (t) => {
  const entries = Array.from({ length: 3_000 }, (_, i) => ({ id: `m-${9_999 - i}` }))
  t.equal(takenOf(entries).length, 1_000)
  t.equal(takenOf(entries)[0]?.id, 'm-7000', 'the first by name, in whatever order they arrive')
  const names = createServedNames()
  for (let server = 0; server < 150; server += 1) names.set(`s-${server}`, list(server), ['a'])
  t.equal(names.of('s-99').length, 1_000)
  t.equal(names.of('s-100').length, 0)
  names.set('s-0', [], ['a'])
  names.set('s-101', list(101), ['a'])
  t.equal(names.of('s-101').length, 1_000, 'freed space can be used again')
})

test('a namespace that lists a million names takes no room from others', async (t) => {
  const names = createServedNames()
  for (let server = 0; server < 1_000; server += 1) names.set(`s-${server}`, list(server), ['a'])
  names.set('of b', list(-1), ['b'])
  names.set('of both', list(-2), ['a', 'b'])
  t.equal(names.of('of b').length, 1_000)
  t.equal(names.of('of both').length, 1_000, 'a server of both counts for the one with room')
  const countOf = () =>
    Array.from({ length: 1_000 }, (_, i) => names.of(`s-${i}`).length).reduce((a, b) => a + b)
  t.ok(countOf() >= 97_000 && countOf() <= 98_000, `${countOf()} remain`)
  for (let server = 0; server < 100; server += 1) names.set(`c-${server}`, list(-9 - server), ['c'])
  t.ok(countOf() >= 48_000 && countOf() <= 50_000, `${countOf()} remain of two that want much`)
  t.equal(names.of('of b').length, 1_000)
})

test("a server is llama.cpp's if all that it lists says so, until it is forgotten", async (t) => {
  const names = createServedNames()
  const snapshot = snapshotOf(...usual)
  const one = snapshot.models.get('llm/one')!
  const { servedNames } = names.onto(snapshot, serverOf)
  const listed = (isLlamaCpp: boolean) => ({ id: 'm', created: undefined, isLlamaCpp })
  t.notOk(snapshot.servedNames.isLlamaCpp(one))
  for (const [list, expected] of [
    [[listed(true)], true],
    [[listed(true), listed(false)], false],
    [[listed(true)], true],
    [[], false],
    [[listed(true)], true],
  ] as const) {
    names.recognise('one', list)
    t.equal(servedNames.isLlamaCpp(one), expected)
    t.notOk(servedNames.isLlamaCpp(snapshot.models.get('llm/two')!))
  }
  names.forget('one')
  t.notOk(servedNames.isLlamaCpp(one))
})
