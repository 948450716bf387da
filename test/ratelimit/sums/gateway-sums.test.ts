import { test } from 'tap'
import type { ExactInt } from '../../../src/formats/exact.ts'
import { windowKey } from '../../../src/ratelimit/redis/keys.ts'
import type { WindowedCounter } from '../../../src/ratelimit/rules/windows.ts'
import { openGatewaySums } from '../../../src/ratelimit/sums/gateway-sums.ts'
import { createDice, Disk, folderOf, Killed, keptOf, type Life, Link, Server } from './model.ts'
import { plainLines } from './plain-lines.ts'

const file = 'usage.jsonl'
const counter: WindowedCounter = { key: 'c', owner: 'ann', window: { ms: 3_600_000 } }
const dice = createDice(1)

/** A gateway's disk, a server, and processes of the gateway. */
function createWorld() {
  const disk = new Disk()
  const world = {
    ...{ disk, now: 1_800_000_000_000, doubles: 0, told: 0, earlier: 0, faults: [] as unknown[] },
    /** By how much the clock is wrong. */
    wrongMs: 0,
    /** Whether small files, such as that of the writers, can't be read. */
    isUnreadable: false,
    /** Whether the shared folder has no room for another file. */
    isFull: false,
    /** Whether nothing can be written to the disk with the checkpoints. */
    isDiskFull: false,
    /** Open files. */
    open: 0,
  }
  const server = new Server(() => world.now)
  async function start(from = disk, isSlow = () => false) {
    const life: Life = {
      isDead: false,
      strike() {
        if (life.isDead) throw new Killed()
      },
    }
    const now = () => world.now + world.wrongMs
    const folder = folderOf(from, life, now)
    const kept = keptOf(from, life, isSlow)
    const sums = await openGatewaySums({
      ...{ gateway: 'g', files: [file], tags: ['all'], tagOf: () => 'all', keptFiles: 0 },
      folder: {
        ...folder,
        open(name) {
          const opened = folder.open(name)
          if (opened === undefined) return undefined
          world.open += 1
          return { ...opened, close: () => (world.open -= 1) }
        },
        readText(name) {
          if (world.isUnreadable) throw new Error(`${name} is not a file`)
          return folder.readText(name)
        },
        replaceText(name, text) {
          if (world.isFull) throw new Error(`ENOSPC: ${name}`)
          folder.replaceText(name, text)
        },
      },
      onDelivered(_, isEarlier) {
        world.told += 1
        if (isEarlier) world.earlier += 1
      },
      kept: {
        ...kept,
        async append(...call) {
          if (world.isDiskFull) throw new Error('ENOSPC')
          await kept.append(...call)
        },
        async replace(...call) {
          if (world.isDiskFull) throw new Error('ENOSPC')
          await kept.replace(...call)
        },
      },
      store: new Link(() => server, dice, life),
      longSums: undefined,
      now,
      monotonic: () => world.now,
      ...plainLines((amount) => [{ at: world.now, amount, counters: [counter] }]),
      onLoss: () => {},
      onDouble: () => (world.doubles += 1),
      onFault: (error) => world.faults.push(error),
    })
    return {
      ...{ sums, life },
      send: async () => {
        await sums.shared.partitions.get('all')?.send()
        for (let turns = 0; turns < 20; turns += 1) await new Promise(setImmediate)
      },
      used: () => sums.shared.read(counter, world.now).used,
    }
  }
  const log = (tokens: number, to = disk): void => to.append(file, `\n${tokens}\n`)
  const stored = (): ExactInt => {
    const keys = [...server.hashes.keys()].filter((key) =>
      key.startsWith(windowKey('all', { id: 'c' })),
    )
    return server.fields(keys[0] ?? '').get('+') ?? 0
  }
  return { world, disk, start, log, stored }
}

test('what another process has sent is read, and not counted twice', async (t) => {
  const { world, start, log, stored } = createWorld()
  const [ahead, behind] = [await start(), await start()]
  await ahead.sums.becomeWriter()
  await behind.sums.becomeWriter()
  log(40)
  await ahead.sums.tail.readAll()
  // It has not looked yet whether it still writes.
  await ahead.send()
  t.equal(stored(), 40)
  await behind.sums.shared.fetch([counter], world.now)
  t.equal(behind.used(), 40)
  log(2)
  await behind.sums.tail.readAll()
  await behind.send()
  t.equal(stored(), 42)
})

test('what a disk has lost is counted on, and not again after a restart', async (t) => {
  const { world, disk, start, log, stored } = createWorld()
  log(40)
  const first = await start()
  await first.sums.becomeWriter()
  await first.send()
  first.life.isDead = true
  for (const name of disk.files.keys()) disk.files.delete(name)
  const second = await start()
  await second.sums.becomeWriter()
  t.equal(second.used(), 0)
  log(2)
  await second.sums.shared.fetch([counter], world.now)
  t.equal(second.used(), 40)
  await second.send()
  await second.sums.tail.readAll()
  log(3)
  await second.sums.tail.readAll()
  await second.send()
  t.equal(stored(), 43, 'what was written before the answer may be in it')
  second.life.isDead = true
  const third = await start()
  await third.sums.becomeWriter()
  t.equal(third.used(), 43)
  t.strictSame(world.faults, [])
})

test('only the last writer writes and removes', async (t) => {
  const { world, disk, start, log, stored } = createWorld()
  const one = await start()
  await one.sums.becomeWriter()
  log(40)
  await one.sums.tail.readAll()
  const renamed = `${file}.${world.now}`
  disk.move(file, renamed)
  world.now += 120_000
  let slow = false
  const other = await start(disk, () => slow)
  slow = true
  const saving = one.sums.save()
  const becoming = other.sums.becomeWriter()
  await saving
  t.ok(disk.files.has(renamed), 'the next one may have begun before it was saved')
  await becoming
  t.equal(one.sums.isWriter, false)
  t.equal(other.sums.isWriter, true)
  await other.send()
  t.equal(stored(), 40)
  await other.sums.save()
  t.equal(disk.files.has(renamed), false)
  t.equal(other.used(), 40)
})

test('a writer that begins does not know less meanwhile', async (t) => {
  const { start, log } = createWorld()
  log(40)
  const one = await start()
  const becoming = one.sums.becomeWriter()
  log(2)
  one.sums.tail.readEnds()
  t.equal(one.used(), 42)
  let least: ExactInt = 42
  const watch = setInterval(() => (least = one.used() < least ? one.used() : least), 0)
  await becoming
  clearInterval(watch)
  t.strictSame([least, one.used()], [42, 42])
})

test('a copied volume is noticed, a second process is not one', async (t) => {
  const { world, disk, start } = createWorld()
  const one = await start()
  await one.sums.becomeWriter()
  await one.send()
  const second = await start()
  await second.sums.becomeWriter()
  await second.send()
  await one.send()
  t.equal(world.doubles, 0)
  const copy = await start(disk.copy())
  await copy.sums.becomeWriter()
  await copy.send()
  await second.send()
  t.equal(world.doubles, 1)
})

test('a read that has begun ends where the files are handed over', async (t) => {
  const { start, log } = createWorld()
  const one = await start()
  await one.sums.becomeWriter()
  log(5)
  await one.sums.tail.readAll()
  await one.send()
  const reading = one.sums.tail.readAll()
  const handing = one.sums.handOver('h', () => {})
  log(7)
  await reading
  t.equal(await handing, true)
  t.equal(one.used(), 5, 'the next name counts what follows')
})

test('files are handed over once the disk can be written', async (t) => {
  const { world, start, log } = createWorld()
  const one = await start()
  await one.sums.becomeWriter()
  world.isDiskFull = true
  t.equal(await one.sums.handOver('h', () => {}), false)
  t.equal(one.sums.isSaveDue(), true)
  log(5)
  await one.sums.tail.readAll()
  t.equal(one.used(), 5, 'it goes on meanwhile')
  await one.send()
  world.isDiskFull = false
  t.equal(await one.sums.handOver('h', () => {}), true)
})

test('lines count under one name if the next one cannot be written', async (t) => {
  const { start, log } = createWorld()
  const one = await start()
  await one.sums.becomeWriter()
  const rename = () => {
    throw new Error('ENOSPC')
  }
  t.equal(await one.sums.handOver('h', rename), false)
  log(5)
  await one.sums.tail.readAll()
  await one.send()
  one.life.isDead = true
  t.equal((await start()).used(), 5, 'also after a crash')
})

test('what the store has beyond the lines is adopted once the disk can be written', async (t) => {
  const { world, start, log } = createWorld()
  const one = await start()
  await one.sums.becomeWriter()
  log(40)
  await one.sums.tail.readAll()
  await one.send()
  one.life.isDead = true
  world.isDiskFull = true
  const next = await start(new Disk())
  await next.sums.becomeWriter()
  t.equal(next.sums.isSaveDue(), true)
  await next.sums.shared.fetch([counter], world.now)
  await next.send()
  t.equal(next.sums.isSaveDue(), true)
  world.isDiskFull = false
  await next.sums.save()
  t.equal(next.sums.isSaveDue(), false)
  next.sums.shared.requestTotal(counter, world.now)
  await next.send()
  t.match(next.sums.shared.read(counter, world.now), { used: 40, own: 40 })
  t.strictSame(world.faults, [])
})

test('whether a writer is needed shows after some seconds', async (t) => {
  const { world, start } = createWorld()
  const [one, other] = [await start(), await start()]
  t.equal(other.sums.hasWriter(), false)
  await one.sums.becomeWriter()
  t.equal(other.sums.hasWriter(), true)
  world.now += 3_999
  t.equal(other.sums.hasWriter(), true)
  one.sums.renewRole()
  world.now += 3_999
  t.equal(other.sums.hasWriter(), true)
  world.now += 1
  t.equal(other.sums.hasWriter(), false)
  one.sums.renewRole()
  other.sums.close()
  t.equal((await start()).sums.hasWriter(), true, 'another one has ended')
  one.sums.close()
  t.equal((await start()).sums.hasWriter(), false, 'it has left')
})

test('a line is counted once where nobody can see who writes', async (t) => {
  const { world, start, log } = createWorld()
  const { sums, used } = await start()
  await sums.becomeWriter()
  world.isUnreadable = true
  // It has to look before it tells anything.
  world.now += 60_000
  log(40)
  for (let i = 0; i < 3; i += 1) await sums.tail.readAll().catch(() => {})
  t.equal(used(), 40)
  t.equal(world.told, 1)
  t.match(world.faults, [/is not a file/])
})

test('a clock that is wrong at a start or for a moment loses nothing', async (t) => {
  for (const wrongMs of [-365 * 86_400_000, 365 * 86_400_000]) {
    const { world, start, log } = createWorld()
    const first = await start()
    await first.sums.becomeWriter()
    log(450)
    await first.sums.tail.readAll()
    await first.sums.save()
    log(30)
    await first.sums.tail.readAll()
    first.life.isDead = true
    world.wrongMs = wrongMs
    const second = await start()
    await second.sums.becomeWriter()
    second.sums.shared.sweep(false)
    await second.sums.save()
    world.wrongMs = 0
    t.equal(second.used(), 480, 'a clock that is set soon after the start')
    second.life.isDead = true
    const third = await start()
    await third.sums.becomeWriter()
    t.equal(third.used(), 480, 'as saved while it was wrong')
    world.wrongMs = wrongMs
    third.sums.shared.sweep(false)
    await third.sums.save()
    world.wrongMs = 0
    t.equal(third.used(), 480, 'a clock that is wrong at a sweep')
    third.life.isDead = true
    t.equal((await start()).used(), 480)
    t.strictSame(world.faults, [])
  }
})

test('a full folder keeps no writer from its work', async (t) => {
  const { world, start, log, stored } = createWorld()
  const one = await start()
  await one.sums.becomeWriter()
  log(40)
  await one.sums.tail.readAll()
  one.life.isDead = true
  world.isFull = true
  const next = await start()
  await next.sums.becomeWriter()
  await next.send()
  t.equal(stored(), 40, 'what the last one had not sent')
  log(2)
  await next.sums.tail.readAll()
  next.sums.renewRole()
  await next.send()
  t.equal(stored(), 42)
  next.sums.close()
  t.equal((await start()).sums.hasWriter(), false, 'it has left')
  t.match(world.faults, [/ENOSPC: usage.told/])
})

test('files are closed where nobody can see who writes', async (t) => {
  const { world, start, log } = createWorld()
  const { sums } = await start()
  await sums.becomeWriter()
  log(40)
  await sums.tail.readAll()
  t.ok(world.open > 0)
  world.isUnreadable = true
  sums.renewRole()
  sums.close()
  t.equal(world.open, 0)
  t.match(world.faults, [/is not a file/, /is not a file/])
})

test('the writer learns which lines are from before its start', async (t) => {
  const { world, start, log } = createWorld()
  const first = await start()
  await first.sums.becomeWriter()
  first.life.isDead = true
  log(40)
  const next = await start()
  await next.sums.becomeWriter()
  for (let turns = 0; turns < 20; turns += 1) await new Promise(setImmediate)
  t.strictSame([world.told, world.earlier], [1, 1])
  log(2)
  await next.sums.tail.readAll()
  t.strictSame([world.told, world.earlier], [2, 1])
})
