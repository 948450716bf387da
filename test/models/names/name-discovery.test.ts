import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { type Test, test } from 'tap'
import type { ModelRef } from '../../../src/kinds/resources.ts'
import {
  createNameDiscovery,
  type NameDiscovery,
} from '../../../src/models/names/name-discovery.ts'
import type { ServedModel } from '../../../src/models/rules/model-list.ts'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import { modelRef, snapshotOf } from '../../support/documents.ts'
import { poll } from '../../support/poll.ts'

const snapshot = snapshotOf(modelRef('one'), modelRef('two'))
const listOf = (...ids: readonly string[]) => ids.map((id) => ({ id, created: undefined }))

const unavailable = async (): Promise<readonly ServedModel[]> => {
  throw new Error('it is unavailable')
}
const isOne = ({ metadata }: ModelRef) => metadata.name === 'one'

interface Settings {
  readonly ask?: (ref: ModelRef) => Promise<readonly ServedModel[]>
  readonly shown?: () => Snapshot
  readonly latest?: () => Snapshot
  readonly freshMs?: number
  readonly onNames?: () => void
}

function start(t: Test, { ask = unavailable, shown, ...rest }: Settings = {}): NameDiscovery {
  const discovery = createNameDiscovery({
    snapshot: shown ?? (() => snapshot),
    ask,
    log: pino({ level: 'silent' }),
    onFault: (error) => t.fail(String(error)),
    restMs: 20,
    ...rest,
  })
  t.teardown(discovery.close)
  return discovery
}

const modelsOf = (discovery: NameDiscovery, name: string) =>
  discovery
    .snapshot()
    .servedNames.listingAnywhere(name, 9)
    .map(({ key }) => key)
    .join()

test('a list is known, and replaced, for models that are to come too', async (t) => {
  let list = listOf('b', 'a')
  let changes = 0
  const none = snapshotOf()
  let shown = none
  const discovery = start(t, {
    ask: async (ref) => (isOne(ref) ? list : await unavailable()),
    shown: () => shown,
    latest: () => snapshot,
    freshMs: 40,
    onNames: () => {
      changes += 1
    },
  })
  await poll(() => changes === 1, 'it has answered')
  t.equal(modelsOf(discovery, 'a'), '', 'its model is not in force')
  shown = snapshot
  t.equal(modelsOf(discovery, 'a'), 'llm/one')
  t.equal(modelsOf(discovery, 'two'), '', 'the name of a resource is not a served name')
  list = listOf('c')
  await poll(() => modelsOf(discovery, 'c') === 'llm/one', 'the change is known')
  t.equal(modelsOf(discovery, 'a'), '')
  t.equal(changes, 2, 'each is told')
})

test('a name that a caller was shown is known at once', async (t) => {
  const showing = start(t)
  showing.note(snapshot.models.get('llm/two')!, listOf('shown'))
  t.equal(modelsOf(showing, 'shown'), 'llm/two')
  const named = snapshotOf(modelRef('two', { modelIds: ['x'] })).models.get('llm/two')!
  showing.note(named, listOf('not taken'))
  t.equal(modelsOf(showing, 'not taken'), '')
})

test('a list stays known while the model server is unavailable', async (t) => {
  let answers = true
  let asked = 0
  const discovery = start(t, {
    freshMs: 20,
    async ask() {
      asked += 1
      return answers ? listOf('kept') : await unavailable()
    },
  })
  await poll(
    () => modelsOf(discovery, 'kept') === 'llm/one,llm/two',
    'the names of both servers are known',
  )
  answers = false
  const before = asked
  await poll(() => asked > before + 2, 'the server is asked again')
  t.equal(modelsOf(discovery, 'kept'), 'llm/one,llm/two')
})

test('models come and go', async (t) => {
  const both = snapshot
  const single = snapshotOf(modelRef('two'))
  let current = both
  let answers = true
  const discovery = start(t, {
    shown: () => current,
    ask: async (ref) => (answers ? listOf(`of ${ref.metadata.name}`) : await unavailable()),
  })
  await poll(
    () => modelsOf(discovery, 'of one') && modelsOf(discovery, 'of two'),
    'both names are known',
  )
  current = single
  t.equal(modelsOf(discovery, 'of one'), '')
  t.equal(modelsOf(discovery, 'of two'), 'llm/two')
  await delay(60)
  answers = false
  current = both
  await delay(60)
  t.equal(modelsOf(discovery, 'of one'), '', 'what a server listed before is forgotten')
})

test('servers that hang do not delay others', async (t) => {
  const many = Array.from({ length: 200 }, (_, i) => modelRef(`m-${i}`))
  const everything = snapshotOf(...many)
  const discovery = start(t, {
    shown: () => everything,
    async ask({ metadata }) {
      if (metadata.name === 'm-199') return listOf('last')
      return await delay(60_000, [], { ref: false })
    },
  })
  await poll(() => modelsOf(discovery, 'last'), 'the last name is known')
})

test('a start waits for the lists, but not for a server that hangs', async (t) => {
  const quick = start(t, { ask: async () => await delay(100, listOf('known')) })
  await quick.untilAsked()
  t.equal(modelsOf(quick, 'known'), 'llm/one,llm/two')
  await start(t).untilAsked()
  const hanging = start(t, {
    ask: async (ref) => (isOne(ref) ? listOf('known') : await delay(60_000, [], { ref: false })),
  })
  await hanging.untilAsked()
  t.equal(modelsOf(hanging, 'known'), 'llm/one')
})
