import { type Test, test } from 'tap'
import { createDraw } from '../../../bench/traces/random.ts'
import {
  learnedPageRows,
  purgeLearnedSums,
} from '../../../src/ratelimit/estimates/postgres-learned-sums.ts'
import { shareLearnedSums } from '../../../src/ratelimit/estimates/share-learned-sums.ts'
import {
  createEstimators,
  type Estimators,
} from '../../../src/ratelimit/rules/estimates/estimators.ts'
import { migrate } from '../../../src/store/postgres/migrate.ts'
import { openPool, type Pool } from '../../../src/store/postgres/postgres.ts'
import { createDatabase } from '../../support/database.ts'
import { poll } from '../../support/poll.ts'
import { startTcpProxy } from '../../support/tcp-proxy.ts'

const draw = createDraw(11)
const sized = { bytes: 1_000, maxOutput: 2_048 }

async function createWorld(t: Test) {
  const url = await createDatabase(t)
  const pool = open(t, url)
  await migrate(pool)
  return { url, pool }
}

function open(t: Test, url: string): Pool {
  const pool = openPool({ url, connections: 1 })
  t.teardown(() => pool.end())
  return pool
}

/** A process: its estimators, shared many times a second until `stop`. */
function start(t: Test, sql: Pool, isNeeded = () => true) {
  const estimators = createEstimators()
  const faults: unknown[] = []
  const onFault = (error: unknown) => faults.push(error)
  const sharing = shareLearnedSums({ sql, estimators, isNeeded, onFault, everyMs: 20 })
  t.teardown(sharing.stop)
  return { estimators, faults, stop: sharing.stop }
}

function learn(estimators: Estimators, answers: number, median: number, model = 'llm/a'): void {
  for (let i = 0; i < answers; i += 1) {
    const output = Math.round(draw.around(median, 0.3))
    const observed = { ...sized, input: 200, output, isCut: false, tookMs: 100, textBytes: 999 }
    estimators.of('one', model).learn(observed)
  }
}

/** What is expected of the next request, all figures that are learned. */
function expectedBy(estimators: Estimators, model = 'llm/a'): readonly number[] {
  const estimator = estimators.of('one', model)
  const { input, output, floor } = estimator.expect(sized, undefined)
  const { output: other } = estimator.expect({ ...sized, maxOutput: undefined }, undefined)
  return [input, output, floor, other, estimator.defaultMs, estimator.bytesPerToken]
}

function isNear(some: readonly number[], others: readonly number[]): boolean {
  return some.every((each, i) => Math.abs(each / (others[i] as number) - 1) <= 0.1)
}

test('a process that starts knows what two others have learned', async (t) => {
  const { url, pool } = await createWorld(t)
  const [first, second] = [start(t, pool), start(t, open(t, url))]
  for (let i = 0; i < 5; i += 1) {
    learn(first.estimators, 40, 100)
    learn(second.estimators, 40, 150)
    await poll(async () => {
      const [a, b] = [first, second].map(({ estimators }) => expectedBy(estimators))
      return isNear(a ?? [], b ?? [])
    }, 'both expect the same')
  }
  const third = start(t, open(t, url))
  const fresh = expectedBy(createEstimators())
  t.notOk(isNear(fresh, expectedBy(first.estimators)))
  const knows = async () => isNear(expectedBy(third.estimators), expectedBy(first.estimators))
  await poll(knows, 'the third expects what they do')
  learn(third.estimators, 1, 100)
  t.ok(await knows(), 'and goes on from there')
  t.same([...first.faults, ...second.faults, ...third.faults], [])
})

test('what was learned last is kept over a restart', async (t) => {
  const { url, pool } = await createWorld(t)
  const before = start(t, pool)
  learn(before.estimators, 100, 30)
  await before.stop()
  const after = start(t, open(t, url))
  const wanted = expectedBy(before.estimators)
  await poll(async () => isNear(expectedBy(after.estimators), wanted), 'it is read again')
})

test('while the database is away, learning goes on and is shared later', async (t) => {
  const { url, pool } = await createWorld(t)
  const proxy = await startTcpProxy(t, Number(new URL(url).port))
  const away = start(t, open(t, proxy.through(url)))
  const other = start(t, pool)
  learn(away.estimators, 60, 1_000)
  const isShared = async () => isNear(expectedBy(other.estimators), expectedBy(away.estimators))
  await poll(isShared, 'it is shared')
  proxy.refuse()
  learn(away.estimators, 300, 20)
  const [, output = 0] = expectedBy(away.estimators)
  t.ok(output < 400, `${output} is expected, without the database`)
  t.notOk(await isShared())
  proxy.heal()
  await poll(isShared, 'it is shared after the outage', 30_000)
  t.same(away.faults, [])
})

test('without anything to estimate the database is left alone', async (t) => {
  const { pool } = await createWorld(t)
  let needed = false
  const { estimators } = start(t, pool, () => needed)
  learn(estimators, 1, 10)
  const rows = async () => (await pool`select 1 from tollgate_learned`).length
  await new Promise((done) => setTimeout(done, 200))
  t.equal(await rows(), 0)
  needed = true
  await poll(async () => (await rows()) > 0, 'it is shared once it is needed')
})

test('several pages are written and read, and the oldest rows are deleted', async (t) => {
  const { url, pool } = await createWorld(t)
  const first = start(t, pool)
  const models = Array.from({ length: 200 }, (_, i) => `llm/m${i}`)
  for (const model of models) learn(first.estimators, 3, 50, model)
  const third = start(t, open(t, url))
  const all = async () =>
    models.every((model) =>
      isNear(expectedBy(third.estimators, model), expectedBy(first.estimators, model)),
    )
  await poll(all, 'all models are known', 20_000)
  const [{ count } = { count: 0 }] = await pool<{ count: number }[]>`
    select count(*)::int as count from tollgate_learned`
  t.ok(count > 2 * learnedPageRows, `${count} rows`)
  await pool`update tollgate_learned set updated_at = now() - interval '31 days'
    where model = 'llm/m7'`
  await purgeLearnedSums(pool, 700)
  const left = await pool<{ model: string }[]>`select distinct model from tollgate_learned`
  t.notOk(left.some(({ model }) => model === 'llm/m7'))
  const [{ kept } = { kept: 0 }] = await pool<{ kept: number }[]>`
    select count(*)::int as kept from tollgate_learned`
  t.equal(kept, 700)
})

test('an exchange ends while responses are observed', async (t) => {
  const { pool } = await createWorld(t)
  const estimators = createEstimators()
  const models = Array.from({ length: 200 }, (_, i) => `llm/m${i}`)
  const learnAll = (): void => {
    for (const model of models) learn(estimators, 1, 50, model)
  }
  learnAll()
  let statements = 0
  const faults: unknown[] = []
  const onFault = (error: unknown) => faults.push(error)
  const sql = new Proxy(pool, {
    apply(target, _, call: Parameters<Pool>) {
      statements += 1
      if (statements < 40) learnAll()
      return target(...call)
    },
  })
  const sharing = shareLearnedSums({ sql, estimators, isNeeded: () => true, onFault })
  // Further exchanges follow after seconds.
  await poll(() => statements > 0, 'it begins')
  await new Promise((settle) => setTimeout(settle, 500))
  t.ok(statements < 20, `${statements} statements`)
  await sharing.stop()
  t.same(faults, [])
})

test('sums of another form are replaced', async (t) => {
  const { url, pool } = await createWorld(t)
  const first = start(t, pool)
  learn(first.estimators, 50, 70)
  await first.stop()
  await pool`update tollgate_learned set sums = '{1,2,3}'`
  const second = start(t, open(t, url))
  learn(second.estimators, 50, 70)
  await second.stop()
  const third = start(t, open(t, url))
  const wanted = expectedBy(second.estimators)
  await poll(async () => isNear(expectedBy(third.estimators), wanted), 'they are written again')
  t.same(second.faults, [])
})

test('sums that have almost decayed are still added to', async (t) => {
  const { url, pool } = await createWorld(t)
  const first = start(t, pool)
  for (const model of ['llm/a', 'llm/b']) learn(first.estimators, 50, 70, model)
  await first.stop()
  await pool`update tollgate_learned set sums = array(
    select case when sum > 0 then sum when model = 'llm/a' then 5e-324 else 1e-90 end
    from unnest(sums) with ordinality as each (sum, at) order by at)`
  const second = start(t, open(t, url))
  learn(second.estimators, 300, 70)
  // The factor of so many values is 1e-313.
  learn(second.estimators, 240_000, 70, 'llm/b')
  await second.stop()
  t.same(second.faults, [])
  const third = start(t, open(t, url))
  const isKnown = (model: string) =>
    isNear(expectedBy(third.estimators, model), expectedBy(second.estimators, model))
  await poll(async () => isKnown('llm/a') && isKnown('llm/b'), 'both are known')
})

test('a part that cannot be written stops no other one', async (t) => {
  const { url, pool } = await createWorld(t)
  await pool`alter table tollgate_learned add check (model <> 'llm/m0')`
  const other = start(t, open(t, url))
  learn(other.estimators, 50, 70, 'llm/other')
  const first = start(t, pool)
  const models = Array.from({ length: 100 }, (_, i) => `llm/m${i}`)
  for (const model of models) learn(first.estimators, 3, 50, model)
  const isKnown = async (model: string) =>
    isNear(expectedBy(first.estimators, model), expectedBy(other.estimators, model))
  await poll(() => isKnown('llm/m1'), 'the rest of its batch is shared')
  await poll(() => isKnown('llm/m99'), 'a later batch is shared')
  await poll(() => isKnown('llm/other'), 'what others have learned is read')
  t.notSame(first.faults, [])
  t.same(other.faults, [])
})
