import { test } from 'tap'
import { counterOf } from '../../src/ratelimit/rules/counter-cache.ts'
import type { TableHit } from '../support/table-reader.ts'
import { blocksIn, chat, createTableWorld, grantOf } from '../support/table-world.ts'

const hourly = grantOf('alice', [[1_000, '1h']])

test('what a check has allowed is decided again', async (t) => {
  const world = await createTableWorld(t)
  t.equal(world.decide(), 'unknown')
  const place = world.admit(hourly)
  const hit = world.decide() as TableHit
  t.equal(hit.text, '"user":"alice","key":"one"')
  t.equal(hit.template[2], '/v1/chat/completions')
  t.equal(hit.template[8], '1h:1000:u')
  t.strictSame(hit.used, [0])
  t.equal(place, `${world.reader.readHead()?.file} 0`)
  for (const [id, path, model] of [
    ['two', chat, ''],
    ['one', `${chat}?beta=true`, ''],
    ['one', chat, 'small'],
  ] as const) {
    t.equal(world.decide(id, path, model), 'unknown')
  }
  t.strictSame(world.faults, [])
})

test('a record has what is charged if a model reports less', async (t) => {
  const world = await createTableWorld(t)
  const held = {
    ...{ bytes: 100, maxOutput: undefined, choices: undefined, ceiling: Infinity, admittedAt: 0 },
    estimate: { input: 25, bytesPerToken: 4.5 },
  }
  world.admit({ ...hourly, held }, { estimate: { inputPerByte: 0.25, bytesPerToken: 4.5 } })
  const hit = world.decide() as TableHit
  t.strictSame([hit.inputPerByte, hit.bytesPerToken, hit.template[0]], [0.25, 4.5, 'e'])
  world.admit({ ...hourly, held }, { keyHash: 'hash-two', credential: 'sk-two' })
  t.equal(world.decide('two'), 'unknown', 'without its figures it is not published')
})

test('a response finds a block before a decision needs it', async (t) => {
  const world = await createTableWorld(t, { settledMs: 20 })
  const place = world.admit(hourly)
  t.equal(place, `${world.reader.readHead()?.file} 0`)
  t.equal(world.decide(), 'unknown')
  // Told by its line alone: this response did not find the block.
  world.count(world.end([], 0), 100, hourly)
  world.now.boot += 19
  world.admit(hourly)
  t.equal(world.decide(), 'unknown')
  world.now.boot += 1
  world.admit(hourly)
  t.strictSame(world.used(), [100])
  world.admit(hourly, { path: '/other' })
  t.not(world.decide('one', '/other'), 'unknown', 'the block is known')
  t.match(world.table.stats(), { published: 2, unplaced: 0 })
})

test('a block whose bucket of names is full is not there', async (t) => {
  const world = await createTableWorld(t, { records: 3 })
  const users = Array.from({ length: 9 }, (_, i) => `user-${i}`)
  const places = users.map((user) => world.admit(grantOf(user, [[1_000, '1h']], {}, user)))
  t.equal(places.filter((place) => place === undefined).length, 6)
  t.equal(world.table.stats().unplaced, 6)
})

test('a key without limits has no block', async (t) => {
  const world = await createTableWorld(t)
  t.equal(world.admit(grantOf('alice', [])), undefined)
  t.strictSame(world.used(), [])
})

test('a record ends with the key, and is reviewed', async (t) => {
  const world = await createTableWorld(t)
  world.admit(hourly, { endsAt: world.now.real + 2_000 })
  world.pass(1_900)
  t.strictSame(world.used(), [0])
  world.pass(100)
  t.equal(world.decide(), 'stale')
  world.admit(hourly)
  world.pass(23_800)
  t.strictSame(world.used(), [0])
  world.pass(6_200)
  t.equal(world.decide(), 'stale')
})

test('scripts decide only as long as the lease is renewed', async (t) => {
  const world = await createTableWorld(t)
  world.admit(hourly)
  world.now.boot += 999
  world.now.real += 999
  t.strictSame(world.used(), [0])
  world.now.boot += 1
  world.now.real += 1
  t.equal(world.decide(), 'closed')
  t.notOk(world.table.stats().isOpen)
  world.table.beat()
  t.strictSame(world.used(), [0])
})

test('the lease ends with that of the keys', async (t) => {
  const world = await createTableWorld(t)
  world.admit(hourly)
  world.state.keyLeaseLeftMs = 300
  world.table.beat()
  world.now.boot += 300
  world.now.real += 300
  t.equal(world.decide(), 'closed')
  world.state.keyLeaseLeftMs = 0
  world.table.beat()
  world.state.keyLeaseLeftMs = 60_000
  world.table.beat()
  t.equal(world.decide(), 'stale', 'what was known before is asked again')
})

test('while it may not serve everything is asked', async (t) => {
  const world = await createTableWorld(t)
  world.admit(hourly)
  world.state.mayServe = false
  world.table.beat()
  t.equal(world.decide(), 'closed')
  const place = world.admit(hourly)
  t.match(place, / 0$/, 'responses add to their lanes all the same')
  world.state.mayServe = true
  world.table.beat()
  t.equal(world.decide(), 'stale')
  world.admit(hourly)
  t.strictSame(world.used(), [0])
})

test('what a rule leaves out only adds to lanes', async (t) => {
  const world = await createTableWorld(t)
  t.equal(world.admit(hourly, { rule: 'traced' }), undefined)
  t.equal(world.decide(), 'unknown')
  const place = world.admit(hourly)
  t.equal(world.admit(hourly, { rule: 'traced' }), place)
})

test('a withdrawn key is asked about at once', async (t) => {
  const world = await createTableWorld(t)
  world.admit(hourly)
  world.admit(hourly, { path: '/v1/chat/completions', bodyModel: 'small' })
  world.admit(grantOf('alice', [[1_000, '1h']], {}, 'two'))
  world.table.withdraw(['hash-one', 'unknown'])
  t.equal(world.decide(), 'unknown')
  t.equal(world.decide('one', '/v1/chat/completions', 'small'), 'unknown')
  t.strictSame(world.used('two'), [0])
  t.match(world.table.stats(), { published: 3, withdrawn: 2, records: { used: 1 } })
  world.table.withdrawAll()
  t.equal(world.decide('two'), 'unknown')
  world.admit(hourly)
  t.strictSame(world.used(), [0])
})

test('what was decided before a withdrawal is not published', async (t) => {
  const world = await createTableWorld(t)
  for (const withdraw of [
    () => world.table.withdraw(['another']),
    () => world.table.withdrawAll(),
    () => void world.table.suspend().then(world.table.resume),
  ]) {
    const { mark } = world.table
    withdraw()
    await new Promise((next) => setTimeout(next, 30))
    world.admit(hourly, { mark })
    t.equal(world.decide(), 'unknown')
  }
})

test('thousands of keys are withdrawn at once', async (t) => {
  const world = await createTableWorld(t, { records: 9_000 })
  const ids = Array.from({ length: 4_000 }, (_, i) => `key-${i}`)
  for (const id of ids) world.admit(grantOf('alice', [[1_000, '1h']], {}, id))
  t.equal(world.table.stats().records.used, 4_000)
  world.table.withdraw(ids.map((id) => `hash-${id}`))
  t.equal(ids.filter((id) => world.decide(id) !== 'unknown').length, 0)
})

test('a suspended table decides nothing that it knew', async (t) => {
  const world = await createTableWorld(t)
  world.admit(hourly)
  const begun = performance.now()
  const suspended = world.table.suspend()
  t.equal(world.decide(), 'stale')
  await suspended
  t.ok(performance.now() - begun >= 10, 'scripts have read the head again')
  await world.table.suspend()
  world.admit(hourly)
  world.table.beat()
  t.equal(world.decide(), 'stale')
  world.table.resume()
  world.admit(hourly)
  t.equal(world.decide(), 'stale', 'two have suspended it')
  world.table.resume()
  world.admit(hourly)
  t.strictSame(world.used(), [0])
})

test('a key is withdrawn from what scripts may still decide by', async (t) => {
  const world = await createTableWorld(t)
  world.admit(hourly)
  void world.table.suspend()
  world.table.withdraw(['hash-one'])
  t.equal(world.decide(), 'unknown', 'not only by its generation')
})

test('a counter that began anew has another block', async (t) => {
  const world = await createTableWorld(t)
  const place = world.admit(hourly)
  const line = world.end(blocksIn(place), 400)
  world.count(line, 400, hourly)
  t.strictSame(world.used(), [400])
  world.now.real += 1
  const { key } = counterOf(hourly.limits[0] as (typeof hourly.limits)[0], 'alice')
  world.reset(key, world.now.real)
  t.equal(world.decide(), 'unknown')
  world.now.real += 1
  t.notSame(world.admit(hourly), place)
  t.strictSame(world.used(), [0])
})

test('a bucket that is full leaves others to checks', async (t) => {
  const world = await createTableWorld(t, { records: 3 })
  for (const id of ['a', 'b', 'c', 'd']) world.admit(grantOf('alice', [[9, '1h']], {}, id))
  t.equal(['a', 'b', 'c', 'd'].filter((id) => world.decide(id) !== 'unknown').length, 3)
  t.match(world.table.stats(), { records: { used: 3, of: 3 }, unplaced: 1 })
  world.pass(31_000)
  world.admit(grantOf('alice', [[9, '1h']], {}, 'd'))
  t.strictSame(world.used('d'), [0])
})

test('a key has 64 records', async (t) => {
  const world = await createTableWorld(t)
  for (let i = 0; i < 70; i += 1) world.admit(hourly, { path: `/${i}` })
  t.match(world.table.stats(), { records: { used: 64 }, unplaced: 6 })
  world.pass(31_000)
  world.admit(hourly)
  t.strictSame(world.used(), [0])
})

test('a table whose numbers are used up is made anew', async (t) => {
  const world = await createTableWorld(t, { records: 3 })
  for (const user of ['a', 'b', 'c', 'd']) world.admit(grantOf(user, [[9, '1h']], {}, user))
  t.match(world.table.stats(), { blocks: { used: 3, of: 3 }, records: { used: 3 }, unplaced: 1 })
  const { file } = world.reader.readHead() ?? {}
  world.pass(30_000)
  t.equal(world.reader.readHead()?.file, file)
  world.pass(32_000)
  await world.opened()
  for (let turns = 0; world.table.stats().blocks.used > 0 && turns < 500; turns += 1) {
    await new Promise((next) => setImmediate(next))
  }
  world.reopen()
  t.not(world.reader.readHead()?.file, file)
  world.admit(grantOf('d', [[9, '1h']], {}, 'd'))
  t.strictSame(world.used('d'), [0])
})
