import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { type Test, test } from 'tap'
import { identityCondition } from '../../../src/cluster/rules/name-conflicts.ts'
import type { ModelRef } from '../../../src/kinds/resources.ts'
import {
  createNameDiscovery,
  type NameDiscovery,
} from '../../../src/models/names/name-discovery.ts'
import { createServedNamesStore } from '../../../src/models/names/served-names.ts'
import type { ServedModel } from '../../../src/models/rules/model-list.ts'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import type { Pool } from '../../../src/store/postgres/postgres.ts'
import { modelRef, snapshotOf } from '../../support/documents.ts'
import { createMigrated } from '../../support/key-store.ts'
import { poll } from '../../support/poll.ts'

const snapshot = snapshotOf(modelRef('one'), modelRef('two'))
const listOf = (...ids: readonly string[]) => ids.map((id) => ({ id, created: undefined }))

const unavailable = async (): Promise<readonly ServedModel[]> => {
  throw new Error('it is unavailable')
}
const one = ({ metadata }: ModelRef) => metadata.name === 'one'

interface Settings {
  readonly ask?: (ref: ModelRef) => Promise<readonly ServedModel[]>
  readonly shown?: () => Snapshot
  readonly freshMs?: number
  /** The time by which names are missing; with it they are looked for at once. */
  readonly clock?: () => number
}

/** Learns names as a process of its own would. */
function start(
  t: Test,
  sql: Pool,
  { ask = unavailable, shown, freshMs, clock }: Settings = {},
): NameDiscovery {
  const discovery = createNameDiscovery({
    snapshot: shown ?? (() => snapshot),
    store: createServedNamesStore(sql, clock),
    ask,
    log: pino({ level: 'silent' }),
    onFault: (error) => t.fail(String(error)),
    restMs: 20,
    ...(freshMs !== undefined && { freshMs }),
    ...(clock && { tendMs: 30 }),
  })
  t.teardown(discovery.close)
  return discovery
}

const modelsOf = (discovery: NameDiscovery, name: string) =>
  (discovery.snapshot().servedNames.get(name)?.owned ?? []).map(({ key }) => key).join()

test('names seen by one process are known to all, also to later ones', async (t) => {
  const sql = await createMigrated(t)
  let list = listOf('b', 'a')
  const seeing = start(t, sql, {
    ask: async (ref) => (one(ref) ? list : await unavailable()),
    freshMs: 40,
  })
  const blind = start(t, sql)
  for (const discovery of [seeing, blind]) {
    await poll(() => modelsOf(discovery, 'a') === 'llm/one', 'the name is known')
    t.equal(modelsOf(discovery, 'two'), '', 'the name of a resource is not a served name')
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

test('models that declare their names are known to be unique', async (t) => {
  const sql = await createMigrated(t)
  const declared = snapshotOf(
    modelRef('one', { modelIds: ['a'] }),
    modelRef('two', { modelIds: ['b'] }),
  )
  const discovery = start(t, sql, { shown: () => declared })
  const statuses = (): string[] => {
    const current = discovery.snapshot()
    return [...current.models.values()].map((model) => identityCondition(model, current).status)
  }
  await poll(() => statuses().join() === 'True,True', 'both are unique, though no server is asked')
})

test('a name that a caller was shown is known at once', async (t) => {
  const sql = await createMigrated(t)
  const [showing, other] = [start(t, sql), start(t, sql)]
  const model = snapshot.models.get('llm/two')!
  await poll(() => showing.snapshot().servedNames.isKnown, 'the owners are known')
  await showing.note(model, [{ id: 'shown', created: undefined }])
  t.equal(modelsOf(showing, 'shown'), 'llm/two')
  await poll(() => modelsOf(other, 'shown') === 'llm/two', 'the other processes know it too')
  t.equal(modelsOf(showing, 'shown'), 'llm/two', 'the name stays')
  const named = snapshotOf(modelRef('two', { modelIds: ['x'] })).models.get('llm/two')!
  await showing.note(named, [{ id: 'not taken', created: undefined }])
  t.equal(modelsOf(showing, 'not taken'), '')
})

test('a list stays known while the model server and the database are unavailable', async (t) => {
  const sql = await createMigrated(t)
  let answers = true
  let asked = 0
  const discovery = start(t, sql, {
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
  await sql`drop table tollgate_served_names`
  const before = asked
  await poll(() => asked > before + 2, 'the server is asked again')
  t.equal(modelsOf(discovery, 'kept'), 'llm/one,llm/two')
})

test('models come and go', async (t) => {
  const sql = await createMigrated(t)
  const both = snapshot
  const single = snapshotOf(modelRef('two'))
  let current = both
  let answers = true
  const discovery = start(t, sql, {
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
  await poll(() => modelsOf(discovery, 'of one') === 'llm/one', 'the name is known from the store')
})

test('servers that hang do not delay others', async (t) => {
  const sql = await createMigrated(t)
  const many = Array.from({ length: 200 }, (_, i) => modelRef(`m-${i}`))
  const everything = snapshotOf(...many)
  const discovery = start(t, sql, {
    shown: () => everything,
    async ask({ metadata }) {
      if (metadata.name === 'm-199') return listOf('last')
      return await delay(60_000, [], { ref: false })
    },
  })
  await poll(() => modelsOf(discovery, 'last'), 'the last name is known')
})

const eastern = modelRef('one', { backendUrl: 'http://east.example:8000' }, 'east')
const twoSpaces = snapshotOf(modelRef('one'), eastern)
const inEast = ({ metadata }: ModelRef) => metadata.namespace === 'east'
const ownerOf = (discovery: NameDiscovery, name: string) =>
  discovery.snapshot().servedNames.ownerOf(name)

test('of two processes that claim at once one wins, for both', async (t) => {
  const sql = await createMigrated(t)
  const many = Array.from({ length: 500 }, (_, i) => `name-${i}`)
  const discoveries = ['llm', 'east'].map((namespace) =>
    start(t, sql, {
      shown: () => twoSpaces,
      // Each process hears from another server first.
      ask: async ({ metadata }) =>
        metadata.namespace === namespace ? listOf(...many) : await unavailable(),
    }),
  )
  await poll(
    () =>
      discoveries.every((discovery) =>
        many.every((name) => ownerOf(discovery, name) !== undefined),
      ),
    'every name has an owner',
  )
  const [a, b] = discoveries.map((discovery) => many.map((name) => ownerOf(discovery, name)))
  t.strictSame(a, b)
  const [row] = await sql`select count(*)::int as rows from tollgate_name_owners`
  t.equal(row?.rows, 500)
})

test('names of lists from before owners existed go to the earliest ModelRef', async (t) => {
  const sql = await createMigrated(t)
  const before = start(t, sql, { shown: () => twoSpaces, ask: async () => listOf('old') })
  await poll(async () => {
    const [row] = await sql`select count(*)::int as lists from tollgate_served_names`
    return row?.lists === 2
  }, 'both lists are kept')
  before.close()
  await sql`truncate tollgate_name_owners`
  const late = start(t, sql, { shown: () => twoSpaces })
  await poll(() => ownerOf(late, 'old'), 'it is claimed from the stored lists')
  t.equal(ownerOf(late, 'old'), 'east', 'both are without a time, so the first by name')
})

test('an owner survives a restart and the silence of its server', async (t) => {
  const sql = await createMigrated(t)
  const first = start(t, sql, {
    shown: () => twoSpaces,
    ask: async (ref) => (inEast(ref) ? await unavailable() : listOf('mine')),
  })
  await poll(() => ownerOf(first, 'mine') === 'llm', 'it is claimed')
  first.close()
  let now = 0
  let polls = 0
  const second = start(t, sql, {
    shown: () => twoSpaces,
    freshMs: 20,
    ask: async (ref) => (inEast(ref) ? listOf('mine') : await unavailable()),
    clock: () => {
      polls += 1
      now += 600_000
      return now
    },
  })
  await poll(() => polls > 12, 'two hours pass')
  t.equal(ownerOf(second, 'mine'), 'llm')
  t.equal(modelsOf(second, 'mine'), 'llm/one')
  const reported = 'ModelRef/east/one: 1 name belongs to others: "mine" to llm'
  await poll(() => second.problems().includes(reported), 'the newcomer is reported')
})

test('a name is given up after an hour, and then taken by the next', async (t) => {
  const sql = await createMigrated(t)
  let [now, hours] = [0, 0]
  let lists = true
  const settings = {
    shown: () => twoSpaces,
    freshMs: 20,
    ask: async (ref: ModelRef) =>
      inEast(ref) && hours === 0
        ? await unavailable()
        : inEast(ref) || lists
          ? listOf('n')
          : listOf(),
    clock: () => {
      now += hours * 600_000
      return now
    },
  }
  const discovery = start(t, sql, settings)
  const other = start(t, sql, { shown: () => twoSpaces })
  await poll(() => ownerOf(discovery, 'n') === 'llm', 'it is claimed')
  hours = 1
  const before = now
  await poll(() => now > before + 7_200_000, 'two hours pass')
  t.equal(ownerOf(discovery, 'n'), 'llm', 'it is kept as long as it is listed')
  lists = false
  const begin = now
  await poll(() => ownerOf(other, 'n') === 'east', 'another process learns of the new owner')
  t.ok(now - begin > 3_600_000, `after ${(now - begin) / 60_000} minutes`)
})

test('a name stays for an hour after the last ModelRef of its namespace', async (t) => {
  const sql = await createMigrated(t)
  let current = twoSpaces
  let [now, step] = [0, 0]
  const discovery = start(t, sql, {
    shown: () => current,
    freshMs: 20,
    ask: async (ref) => (inEast(ref) && current === twoSpaces ? listOf() : listOf('n')),
    clock: () => {
      now += step
      return now
    },
  })
  await poll(() => ownerOf(discovery, 'n') === 'llm', 'it is claimed')
  const without = snapshotOf(eastern)
  current = without
  await delay(200)
  t.equal(ownerOf(discovery, 'n'), 'llm')
  current = twoSpaces
  await poll(() => modelsOf(discovery, 'n') === 'llm/one', 'the ModelRef is created again')
  current = without
  step = 600_000
  const begin = now
  await poll(() => ownerOf(discovery, 'n') === 'east', 'it is given up')
  t.ok(now - begin >= 3_600_000)
})

test('nobody claims while the database is away', async (t) => {
  const sql = await createMigrated(t)
  let lists: readonly string[] = ['early']
  const discovery = start(t, sql, { freshMs: 20, ask: async () => listOf(...lists) })
  await poll(() => ownerOf(discovery, 'early'), 'it is claimed')
  await sql`alter table tollgate_name_owners rename to away`
  lists = ['early', 'late']
  await delay(200)
  t.equal(ownerOf(discovery, 'late'), undefined)
  t.equal(modelsOf(discovery, 'early'), 'llm/one,llm/two', 'what is owned stays in use')
  await sql`alter table away rename to tollgate_name_owners`
  await poll(() => ownerOf(discovery, 'late') === 'llm', 'it is claimed afterwards')
})

test('a name that a ModelRef declared until recently is claimed by no other namespace', async (t) => {
  const sql = await createMigrated(t)
  const declared = snapshotOf(modelRef('one'), modelRef('secret', {}, 'east'))
  let current = declared
  const discovery = start(t, sql, {
    shown: () => current,
    freshMs: 20,
    ask: async (ref) => (inEast(ref) ? await unavailable() : listOf('secret', 'other')),
  })
  await poll(() => ownerOf(discovery, 'other') === 'llm', 'the list is known')
  t.equal(ownerOf(discovery, 'secret'), undefined)
  current = snapshotOf(modelRef('one'))
  await delay(200)
  t.equal(ownerOf(discovery, 'secret'), undefined, 'while it is deleted and created again')
})

test('owners are those of the database again after an older one is restored', async (t) => {
  const sql = await createMigrated(t)
  const asking = start(t, sql, { ask: async (ref) => (one(ref) ? listOf('a') : unavailable()) })
  await poll(() => ownerOf(asking, 'a') === 'llm', 'it is claimed')
  asking.close()
  await sql`create table backup as table tollgate_name_owners`
  await sql`
    insert into tollgate_name_owners (name, namespace, server, change) values
      ('b', 'llm', 'of-b', gen_random_uuid())`
  await sql`
    update tollgate_name_owners set namespace = 'east', changed_at = now(), change = gen_random_uuid()
    where name = 'a'`
  const running = start(t, sql)
  await poll(() => ownerOf(running, 'b') === 'llm', 'a later claim is known')
  t.equal(ownerOf(running, 'a'), 'east')
  await sql`
    with gone as (
      delete from tollgate_name_owners where name not in (select name from backup)
    )
    update tollgate_name_owners as kept
      set namespace = backup.namespace, changed_at = backup.changed_at, change = backup.change
      from backup where kept.name = backup.name`
  await poll(() => ownerOf(running, 'b') === undefined, 'what the backup lacks is forgotten')
  t.equal(ownerOf(running, 'a'), 'llm', 'what has changed since is as in the backup')
  await sql`truncate tollgate_name_owners`
  await poll(
    async () => (await sql`select from tollgate_name_owners where name = 'a'`).length === 1,
    'what is listed is claimed again',
  )
})
