import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { type Test, test } from 'tap'
import type { ModelRef } from '../../src/core/resources.ts'
import type { Snapshot } from '../../src/core/snapshot.ts'
import type { Pool } from '../../src/store/postgres/postgres.ts'
import { createServedNamesStore } from '../../src/store/served-names.ts'
import { createLearner, type Learner } from '../../src/wiring/served-names.ts'
import { modelRef, snapshotOf } from '../support/documents.ts'
import { createMigrated } from '../support/key-store.ts'
import { listOf } from '../support/list-api.ts'
import { poll } from '../support/poll.ts'

const snapshot = snapshotOf(modelRef('one'), modelRef('two'))
const unavailable = async (): Promise<unknown> => {
  throw new Error('it is unavailable')
}
const one = ({ metadata }: ModelRef) => metadata.name === 'one'

interface Settings {
  readonly ask?: (ref: ModelRef) => Promise<unknown>
  readonly shown?: () => Snapshot
  readonly freshMs?: number
}

/** Learns names as a process of its own would. */
function start(t: Test, sql: Pool, { ask = unavailable, shown, freshMs }: Settings = {}): Learner {
  const learner = createLearner({
    snapshot: shown ?? (() => snapshot),
    store: createServedNamesStore(sql),
    ask,
    log: pino({ level: 'silent' }),
    onFault: (error) => t.fail(String(error)),
    restMs: 20,
    ...(freshMs !== undefined && { freshMs }),
  })
  t.teardown(learner.close)
  return learner
}

const modelsOf = (learner: Learner, name: string) =>
  (learner.snapshot().modelsByServedName.get(name) ?? []).map(({ key }) => key).join()

test('names seen by one process are known to all, also to later ones', async (t) => {
  const sql = await createMigrated(t)
  let list = listOf('b', 'a')
  const seeing = start(t, sql, {
    ask: async (ref) => (one(ref) ? list : await unavailable()),
    freshMs: 40,
  })
  const blind = start(t, sql)
  for (const learner of [seeing, blind]) {
    await poll(() => modelsOf(learner, 'a') === 'llm/one', 'the name is known')
    t.equal(modelsOf(learner, 'two'), '', 'the name of a resource is not a served name')
  }
  list = listOf('c')
  await poll(() => modelsOf(blind, 'c') === 'llm/one', 'the change is known')
  t.equal(modelsOf(blind, 'a'), '')
  seeing.close()
  // While the model server is unavailable.
  const late = start(t, sql)
  await poll(() => modelsOf(late, 'c') === 'llm/one', 'the name is known from the store')
  const [row] = await sql`select names from tollgate_served_names`
  t.strictSame(row?.names, ['c'])
})

test('a name that a caller was shown is known at once', async (t) => {
  const sql = await createMigrated(t)
  const [showing, other] = [start(t, sql), start(t, sql)]
  const model = snapshot.models.get('llm/two')!
  showing.note(model, [{ id: 'shown', created: undefined }])
  t.equal(modelsOf(showing, 'shown'), 'llm/two')
  await poll(() => modelsOf(other, 'shown') === 'llm/two', 'the other processes know it too')
  t.equal(modelsOf(showing, 'shown'), 'llm/two', 'the name stays')
  const named = snapshotOf(modelRef('two', { modelIds: ['x'] })).models.get('llm/two')!
  showing.note(named, [{ id: 'not taken', created: undefined }])
  t.equal(modelsOf(showing, 'not taken'), '')
})

test('a list stays known while the model server and the database are unavailable', async (t) => {
  const sql = await createMigrated(t)
  let answers = true
  let asked = 0
  const learner = start(t, sql, {
    freshMs: 20,
    async ask() {
      asked += 1
      return answers ? listOf('kept') : await unavailable()
    },
  })
  await poll(
    () => modelsOf(learner, 'kept') === 'llm/one,llm/two',
    'the names of both servers are known',
  )
  answers = false
  await sql`drop table tollgate_served_names`
  const before = asked
  await poll(() => asked > before + 2, 'the server is asked again')
  t.equal(modelsOf(learner, 'kept'), 'llm/one,llm/two')
})

test('models come and go', async (t) => {
  const sql = await createMigrated(t)
  const both = snapshot
  const single = snapshotOf(modelRef('two'))
  let current = both
  let answers = true
  const learner = start(t, sql, {
    shown: () => current,
    ask: async (ref) => (answers ? listOf(`of ${ref.metadata.name}`) : await unavailable()),
  })
  await poll(
    () => modelsOf(learner, 'of one') && modelsOf(learner, 'of two'),
    'both names are known',
  )
  current = single
  t.equal(modelsOf(learner, 'of one'), '')
  t.equal(modelsOf(learner, 'of two'), 'llm/two')
  await delay(60)
  answers = false
  current = both
  await poll(() => modelsOf(learner, 'of one') === 'llm/one', 'the name is known from the store')
})

test('servers that hang do not delay others', async (t) => {
  const sql = await createMigrated(t)
  const many = Array.from({ length: 200 }, (_, i) => modelRef(`m-${i}`))
  const everything = snapshotOf(...many)
  const learner = start(t, sql, {
    shown: () => everything,
    async ask({ metadata }) {
      if (metadata.name === 'm-199') return listOf('last')
      return await delay(60_000, undefined, { ref: false })
    },
  })
  await poll(() => modelsOf(learner, 'last'), 'the last name is known')
})
