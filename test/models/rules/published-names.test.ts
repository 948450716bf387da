import { test } from 'tap'
import { authorize } from '../../../src/decide/decide.ts'
import { createServedNames } from '../../../src/models/rules/served-names.ts'
import type { Model } from '../../../src/models/rules/snapshot.ts'
import { pathRules } from '../../../src/operations/operations.ts'
import { parseTarget } from '../../../src/operations/request-target.ts'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'

const team = { groups: ['team'] }
const rate = [[1, '1m']] as const
const keys = ['llm/granite', 'llm/ids', 'llm/renamed', 'llm/lister', 'llm/odd', 'east/granite']
const snapshot = snapshotOf(
  modelRef('granite'),
  modelRef('ids', { modelIds: ['org/Ids', 'publishers/llm/models/own'] }),
  modelRef('renamed', { upstreamModel: 'org/Renamed' }),
  modelRef('lister'),
  modelRef('odd'),
  modelRef('shut'),
  modelRef('granite', { modelIds: ['publishers/llm/models/gone'] }, 'east'),
  modelRef('taker', {}, 'east'),
  accessPolicy('open', [...keys, 'east/taker'], team),
  subscription('all', team, Object.fromEntries(keys.map((key) => [key, rate]))),
)
const serverOf = ({ key }: Model): string => key
const names = createServedNames()
const lists = {
  'llm/granite': ['granite', 'lora'],
  'llm/lister': ['org/Lister', 'publishers/llm/models/aliased'],
  'llm/odd': ['a "quoted" name', 'zebra'],
  'east/taker': ['publishers/llm/models/granite', 'publishers/llm/models/free'],
}
for (const [server, list] of Object.entries(lists)) {
  names.set(
    server,
    list.map((id) => ({ id })),
  )
}
const shown = names.onto(snapshot, serverOf)

/** The model's key and the name that its server is sent, or the code. */
function ask(bodyModel: string, path = '/v1/chat/completions') {
  const caller = { by: 'key', user: 'ada', groups: ['team'], keyId: 'k' } as const
  const decision = authorize(
    {
      caller: { ...caller, subscription: 'all' },
      target: parseTarget(path)!,
      method: 'POST',
      bodyModel,
      requestedSubscription: undefined,
    },
    shown,
    pathRules(),
  )
  return decision.allowed ? [decision.model.key, decision.sentName] : decision.code
}

test('an id in the form of the original names its ModelRef', async (t) => {
  t.same(ask('publishers/llm/models/granite'), ['llm/granite', 'granite'])
  t.same(ask('publishers/east/models/granite'), ['east/granite', 'publishers/llm/models/gone'])
  t.equal(ask('publishers/llm/models/shut'), 'model_not_allowed')
  t.equal(ask('publishers/llm/models/none'), 'model_not_allowed')
  for (const id of [
    'publishers/llm/granite',
    'publishers//models/granite',
    'publishers/llm/models/',
  ]) {
    t.equal(ask(id), 'model_not_allowed', id)
  }
})

test('the server is sent a name that it knows', async (t) => {
  t.same(ask('publishers/llm/models/ids'), ['llm/ids', 'org/Ids'])
  t.same(ask('publishers/llm/models/org/Ids'), ['llm/ids', 'org/Ids'])
  t.same(ask('publishers/llm/models/own'), ['llm/ids', undefined], 'the id itself')
  t.same(ask('publishers/llm/models/renamed'), ['llm/renamed', undefined], 'spec.upstreamModel')
  t.same(ask('publishers/llm/models/lister'), ['llm/lister', 'org/Lister'])
  t.same(ask('publishers/llm/models/odd'), ['llm/odd', 'zebra'], 'a name that needs no escapes')
  t.same(ask('org/Ids'), ['llm/ids', undefined], 'other names stay')
  t.same(
    ask('publishers/llm/models/ids', '/llm/granite/v1/chat/completions'),
    ['llm/granite', undefined],
    'the path wins',
  )
})

test('nobody else gets such an id by listing or declaring it', async (t) => {
  for (const name of ['free', 'gone', 'aliased', 'lora']) {
    t.equal(ask(`publishers/llm/models/${name}`), 'model_not_allowed', name)
  }
  t.same(ask('publishers/llm/models/own'), ['llm/ids', undefined], 'unless in that namespace')
})
