import { test } from 'tap'
import { authorize } from '../../../src/decide/decide.ts'
import {
  isUnambiguousName,
  modelsListingName,
  modelsWithoutAccess,
  namedModelKey,
} from '../../../src/decide/name-lookup.ts'
import { denialMessage, refusalReason } from '../../../src/decide/refusal-message.ts'
import type { Caller } from '../../../src/identity/rules/caller.ts'
import { acceptedNames, createServedNames } from '../../../src/models/rules/served-names.ts'
import type { Model, Snapshot } from '../../../src/models/rules/snapshot.ts'
import { pathRules } from '../../../src/operations/operations.ts'
import { parseTarget } from '../../../src/operations/request-target.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'

const team = { groups: ['team-a'] }
const rate = [[1, '1m']] as const
const ada = { by: 'key', user: 'ada', groups: ['team-a'], keyId: 'k', subscription: 'all' } as const
const eve: Caller = { ...ada, groups: ['team-b'], subscription: 'theirs' }
const token: Caller = {
  ...{ by: 'token', user: 'ada', groups: ['team-a'], proof: { by: 'file' } },
}
const open = ['llm/one', 'llm/two', 'llm/named', 'llm/renamed', 'llm/hosted']
const east = ['east/new']
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
  subscription('all', team, Object.fromEntries([...open, 'llm/shut'].map((key) => [key, rate]))),
  subscription('few', team, { 'llm/two': rate }),
  subscription('east', team, { 'east/new': rate }),
  subscription('theirs', { groups: ['team-b'] }, { 'llm/shut': rate, 'east/new': rate }),
]
const serverOf = ({ resource }: Model): string => resource.metadata.name
const listOf = (...ids: readonly string[]) => ids.map((id) => ({ id }))

/** Names as if each ModelRef had a server of its own with this list. */
function given(
  lists: Record<string, readonly string[]>,
  snapshot: Snapshot = snapshotOf(...usual),
) {
  const names = createServedNames()
  const set = (server: string, list: readonly string[]) => names.set(server, listOf(...list))
  for (const [server, list] of Object.entries(lists)) set(server, list)
  const shown = names.onto(snapshot, serverOf)
  const target = parseTarget('/v1/chat/completions')!
  const asking = (bodyModel: string, caller: Caller, header?: string) => {
    return { caller, target, method: 'POST', bodyModel, requestedSubscription: header }
  }
  function decide(bodyModel: string, caller: Caller = ada, header?: string) {
    const request = { ...asking(bodyModel, caller, header), tokensOpen: true }
    return authorize(request, shown, pathRules())
  }
  function ask(bodyModel: string, caller: Caller = ada, header?: string): string {
    const decision = decide(bodyModel, caller, header)
    const isOne = isUnambiguousName(bodyModel, { caller, requestedSubscription: header }, shown)
    if (decision.allowed !== isOne) return `a body ${isOne ? 'may' : 'may not'} use the name`
    return decision.allowed ? decision.model.key : decision.code
  }
  /** Why it is refused, for the log. */
  function reason(bodyModel: string, caller: Caller = ada): string | undefined {
    const denial = { allowed: false, code: 'model_not_allowed' } as const
    const naming = asking(bodyModel, caller)
    return refusalReason(
      denial,
      () => modelsWithoutAccess(naming, shown),
      () => modelsListingName(naming, shown),
    )
  }
  const named = (bodyModel: string, caller: Caller = ada) =>
    namedModelKey(asking(bodyModel, caller), shown)
  return { decide, ask, set, reason, named, shown }
}

test('tells of each change that decisions depend on', (t) => {
  let changes = 0
  const names = createServedNames(() => {
    changes += 1
  })
  const told = (act: () => unknown) => {
    const before = changes
    act()
    return changes - before
  }
  const list = (...ids: string[]) => told(() => names.set('one', listOf(...ids)))
  t.equal(list('a', 'b'), 1)
  t.equal(list('b', 'a'), 0, 'the same list')
  t.equal(list('a'), 1)
  const llamaCpp = [{ id: 'a', isLlamaCpp: true }]
  t.equal(
    told(() => names.set('one', llamaCpp)),
    1,
  )
  t.equal(
    told(() => names.set('one', llamaCpp)),
    0,
  )
  t.equal(
    told(() => names.forget('one')),
    1,
  )
  t.equal(
    told(() => names.forget('one')),
    0,
  )
  t.end()
})

test('the reason of a refusal names the closed models of a name, and their policies', async (t) => {
  const world = snapshotOf(
    ...usual,
    modelRef('unnamed'),
    subscription('x', team, { 'llm/x': rate }),
  )
  const { ask, reason, named } = given({ shut: ['org/Shut'], new: ['org/New'] }, world)
  const no = 'no AccessPolicy opens the model to the caller'
  for (const name of ['org/Shut', 'shut', 'publishers/llm/models/shut']) {
    t.equal(ask(name), 'model_not_allowed')
    t.equal(reason(name), `${no}: llm/shut is named by theirs`)
    t.equal(named(name), 'llm/shut')
  }
  t.equal(
    reason('org/New'),
    "no model in the caller's Subscription lists the name; outside of it do east/new",
  )
  t.equal(named('org/New'), undefined, 'nor is a refusal counted for it')
  t.equal(reason('unnamed'), `${no}: none names llm/unnamed`)
  t.equal(reason('org/Nothing'), 'no such model')
  const several = snapshotOf(
    ...['a', 'b', 'c', 'd'].map((name) => modelRef(name, { modelIds: ['same'] }, name)),
  )
  const shown = 'none names a/a, none names b/b, none names c/c and 1 more'
  t.equal(given({}, several).reason('same'), `${no}: ${shown}`)
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

test('a list outside of the Subscription takes no name, blocks none and adds none', async (t) => {
  const hostile = ['org/One', 'one', 'org/Named', 'org/Two', 'of hostile']
  const { ask, set } = given({ new: hostile })
  t.equal(ask('org/One'), 'model_not_allowed', 'it came first')
  set('one', ['org/One'])
  t.equal(ask('org/One'), 'llm/one')
  t.equal(ask('one'), 'llm/one')
  t.equal(ask('org/Named'), 'llm/named')
  t.equal(ask('of hostile'), 'model_not_allowed')
  set('one', [])
  t.equal(ask('org/One'), 'model_not_allowed', 'nor does it get what a server drops')
  t.equal(ask('org/One', { ...ada, subscription: 'east' }), 'east/new', 'its own callers have it')
  t.equal(ask('org/One', eve), 'east/new')
})

test('a name of several models of the Subscription is refused, never chosen', async (t) => {
  const { ask, decide, set } = given({ two: ['both'], one: ['both', 'theirs'], shut: ['theirs'] })
  t.equal(ask('both'), 'model_ambiguous')
  const denial = decide('both')
  t.match(denial, {
    detail: { paths: ['/llm/one/v1/chat/completions', '/llm/two/v1/chat/completions'] },
  })
  t.equal(
    !denial.allowed && denialMessage(denial, 0),
    'Several models have this name, which their servers list; use /llm/one/v1/chat/completions or ' +
      '/llm/two/v1/chat/completions. spec.modelIds of one ModelRef makes the name its own.',
  )
  t.equal(ask('both', { ...ada, subscription: 'few' }), 'llm/two', 'the Subscription has only one')
  t.equal(ask('theirs'), 'llm/one', 'no policy opens the other to the caller')
  t.equal(ask('theirs', eve), 'llm/shut')
  set('two', [])
  t.equal(ask('both'), 'llm/one')
})

test('modelIds of one of them make the name its own', async (t) => {
  const declaring = usual.map((document) =>
    document.metadata.name === 'two' ? modelRef('two', { modelIds: ['both'] }) : document,
  )
  const { ask } = given({ two: ['both'], one: ['both'] }, snapshotOf(...declaring))
  t.equal(ask('both'), 'llm/two')
})

test('of very many models ten are shown', async (t) => {
  const keys = Array.from({ length: 5_000 }, (_, i) => `many/m-${i}`)
  const snapshot = snapshotOf(
    ...keys.map((key) => modelRef(key.slice(5), {}, 'many')),
    accessPolicy('open', keys, team),
    subscription('all', team, Object.fromEntries(keys.map((key) => [key, rate]))),
  )
  const names = createServedNames()
  names.set('shared', listOf('x'))
  const target = parseTarget('/v1/chat/completions')!
  const request = { caller: ada, target, method: 'POST', bodyModel: 'x' }
  const denial = authorize(
    { ...request, requestedSubscription: undefined },
    names.onto(snapshot, () => 'shared'),
    pathRules(),
  )
  if (denial.allowed || denial.detail?.about !== 'ambiguous') throw new Error('it is ambiguous')
  t.equal(denial.detail.paths.length, 10)
  t.match(denialMessage(denial, 0), ' or another path. spec.modelIds')
})

test('a Subscription is read once, however many names are looked for in it', async (t) => {
  const crowd = Array.from({ length: 1_000 }, (_, i) => `c-${i}`)
  const mine = Array.from({ length: 1_000 }, (_, i) => `m-${i}`)
  const snapshot = snapshotOf(
    ...crowd.map((name) => modelRef(name, {}, 'crowd')),
    ...mine.map((name) => modelRef(name, {}, 'mine')),
    accessPolicy('open', ['mine/m-0', 'mine/m-1'], team),
    subscription('all', team, Object.fromEntries(mine.map((name) => [`mine/${name}`, rate]))),
    subscription('few', team, { 'mine/m-0': rate, 'mine/m-1': rate }),
  )
  let read = 0
  const counted = {
    ...snapshot,
    models: Object.assign(new Map(snapshot.models), {
      get(key: string) {
        read += 1
        return snapshot.models.get(key)
      },
    }),
  }
  const lists = Object.fromEntries(crowd.map((name) => [name, ['x']]))
  const { ask, set } = given({ ...lists, 'm-0': ['x', 'y'] }, counted)
  const readBy = (name: string, subscription: string, expected = 'mine/m-0') => {
    read = 0
    t.equal(ask(name, { ...ada, subscription }), expected)
    return read
  }
  t.equal(readBy('z', 'all', 'model_not_allowed'), 0, 'nobody lists it')
  t.equal(readBy('x', 'few'), 2, 'the models of the Subscription')
  t.equal(readBy('x', 'all'), 1_000)
  for (const name of ['x', 'y']) t.equal(readBy(name, 'all'), 0)
  set('m-2', ['y'])
  t.equal(readBy('y', 'all', 'mine/m-0'), 0, 'no policy opens the model')
})

test('a result is kept until a server begins or ceases to list the name', async (t) => {
  const { ask, set, shown } = given({ one: ['x', 'y'], new: ['x'] })
  const all = shown.subscriptions.get('all')!
  const kept = shown.servedNames.listing('x', all)
  const isKept = () => shown.servedNames.listing('x', all) === kept
  t.ok(isKept())
  set('one', ['x', 'other'])
  t.ok(isKept(), 'other names have changed')
  set('new', [])
  t.notOk(isKept(), 'one ceased to list it')
  t.equal(ask('x'), 'llm/one')
  set('two', ['x'])
  t.equal(ask('x'), 'model_ambiguous')
  set('one', [])
  t.equal(ask('x'), 'llm/two')
})

test('models that list a name come in the order of the Subscription', async (t) => {
  const keys = ['llm/c', 'llm/a', 'llm/b', 'llm/silent']
  const snapshot = snapshotOf(
    ...keys.map((key) => modelRef(key.slice(4))),
    accessPolicy('open', keys, team),
    subscription('all', team, Object.fromEntries(keys.map((key) => [key, rate]))),
  )
  const { shown } = given({ b: ['x'], a: ['x'], c: ['x'] }, snapshot)
  const listing = shown.servedNames.listing('x', shown.subscriptions.get('all')!)
  t.strictSame(
    listing.map(({ key }) => key),
    keys.slice(0, 3),
  )
})

test('a token asks for what all Subscriptions of its own have, or the one that it names', async (t) => {
  const { ask } = given({ one: ['a'], two: ['a', 'b'], new: ['b', 'c'], shut: ['c', 'd'] })
  t.equal(ask('a', token), 'model_ambiguous')
  t.equal(ask('b', token), 'model_ambiguous')
  t.equal(ask('c', token), 'east/new')
  t.equal(ask('d', token), 'model_not_allowed', 'no policy opens it')
  t.equal(ask('a', token, 'few'), 'llm/two')
  t.equal(ask('b', token, 'few'), 'llm/two')
  t.equal(ask('b', token, 'east'), 'east/new')
  t.equal(ask('c', token, 'few'), 'model_not_allowed')
  for (const header of ['theirs', 'none']) {
    t.equal(ask('c', token, header), 'model_not_allowed', 'not its own')
  }
  t.equal(ask('b', ada, 'east'), 'llm/two', 'of a key the header is ignored')
})

test("a key's own models are all that a name may mean for it", async (t) => {
  const { ask, decide } = given({ one: ['both', 'mine'], two: ['both', 'other'], named: [] })
  const caps = { networks: undefined, limitsOn: undefined }
  const capped = (...models: string[]) => ({ ...ada, caps: { ...caps, models: new Set(models) } })
  t.equal(ask('both', capped('llm/one')), 'llm/one', 'the other is not among them')
  t.match(decide('other', capped('llm/one')), { detail: { about: 'key_models' } })
  const denial = decide('both', capped('llm/named'))
  t.match(denial, { code: 'model_not_allowed', detail: { about: 'key_models' } })
  t.notMatch(JSON.stringify(denial), 'llm/one', 'it is not told what its owner may call')
})

test('a model that cannot be paid now is found, so that the refusal says so', async (t) => {
  const broken = subscription('broken', team, { 'llm/one': rate, 'llm/gone': rate })
  const deleted = {
    ...broken,
    metadata: { ...broken.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
  }
  const { decide } = given({ one: ['a'] }, snapshotOf(...usual, deleted))
  t.match(decide('a', { ...ada, subscription: 'broken' }), {
    code: 'subscription_not_allowed',
    selection: 'model_unhealthy',
  })
})

test('a resource with names of its own takes none from its server', async (t) => {
  const list = ['listed']
  const { ask } = given({ named: list, renamed: list, hosted: list })
  t.equal(ask('listed'), 'model_not_allowed')
})

test('of one server a thousand names are taken, and 64 Ki characters', async (t) => {
  const entries = Array.from({ length: 10_000 }, (_, i) => ({ id: `m-${19_999 - i}` }))
  t.equal(acceptedNames(entries).length, 1_000)
  t.equal(
    acceptedNames(entries)[0]?.id,
    'm-10000',
    'the first by name, in whatever order they arrive',
  )
  const long = Array.from({ length: 1_000 }, (_, i) => ({ id: `${i}`.padStart(512, '0') }))
  t.equal(acceptedNames(long).length, 128)
  const { ask } = given({ one: entries.map(({ id }) => id), two: ['b'] })
  t.equal(ask('m-10999'), 'llm/one')
  t.equal(ask('m-11000'), 'model_not_allowed')
  t.equal(ask('b'), 'llm/two', 'it takes no room from others')
})

test("a server is llama.cpp's if all that it lists says so, until it is forgotten", async (t) => {
  const names = createServedNames()
  const snapshot = snapshotOf(...usual)
  const one = snapshot.models.get('llm/one')!
  const { servedNames } = names.onto(snapshot, serverOf)
  const listed = (isLlamaCpp: boolean) => ({ id: `m ${isLlamaCpp}`, isLlamaCpp })
  t.notOk(snapshot.servedNames.isLlamaCpp(one))
  for (const [list, expected] of [
    [[listed(true)], true],
    [[listed(true), listed(false)], false],
    [[listed(true)], true],
    [[], false],
    [[listed(true)], true],
  ] as const) {
    names.set('one', list)
    t.equal(servedNames.isLlamaCpp(one), expected)
    t.notOk(servedNames.isLlamaCpp(snapshot.models.get('llm/two')!))
  }
  names.forget('one')
  t.notOk(servedNames.isLlamaCpp(one))
})
