import { test } from 'tap'
import { openGatewaySums } from '../../../src/ratelimit/sums/gateway-sums.ts'
import { createRandom } from '../../support/random.ts'
import '../../support/time-limit.ts'
import { createDice, Disk, folderOf, Killed, keptOf, type Life } from './model.ts'
import { textLines, textOf } from './plain-lines.ts'

const files = ['usage.jsonl', 'usage.envoy.jsonl']
/** How old what a writer has written down of its telling may be: a second, and how late that may be in this test. */
const lateMs = 1_400

interface Process {
  readonly sums: Awaited<ReturnType<typeof openGatewaySums>>
  readonly life: Life
  /** When it has shown itself last; the next time is a second later, unless it hangs. */
  shownAt: number
}

interface Telling {
  readonly at: number
  readonly by: Process
}

/**
 * Two processes of a gateway take turns, and are killed in any step or hang. Each line is told, and twice
 * only if it was told within a second before its process was killed or began to hang.
 */
async function runOnce(seed: number) {
  const dice = createDice(seed)
  const disk = new Disk()
  for (const name of files) disk.create(name)
  let now = 1_800_000_000_000
  let danger = 0
  let written = 0
  let names = 0
  const told = new Map<string, Telling[]>()
  /** When a process was seen for the last time that was killed, or hung. */
  const ends: { readonly process: Process; readonly at: number }[] = []
  const faults: unknown[] = []
  const slots: (Process | undefined)[] = [undefined, undefined]

  async function start(slot: number): Promise<void> {
    const life: Life = {
      isDead: false,
      strike() {
        if (life.isDead) throw new Killed()
        if (danger === 0 || !dice.chance(danger)) return
        life.isDead = true
        throw new Killed()
      },
    }
    let own: Process | undefined
    const sums = await openGatewaySums({
      ...{ gateway: 'g', files, tags: ['all'], tagOf: () => 'all', keptFiles: 0 },
      folder: folderOf(disk, life, () => now),
      kept: keptOf(disk, life, () => dice.chance(0.2)),
      ...{ store: undefined, longSums: undefined, now: () => now, monotonic: () => now },
      ...textLines(() => []),
      onDelivered(line) {
        const text = textOf(line)
        if (own === undefined) faults.push(`${text} was told before its process had begun`)
        else told.set(text, [...(told.get(text) ?? []), { at: now, by: own }])
      },
      ...{ onLoss: () => {}, onDouble: () => {}, onFault: () => {} },
    }).catch(() => undefined)
    if (sums === undefined) return
    own = { sums, life, shownAt: now }
    slots[slot] = own
  }

  function end(slot: number): void {
    const process = slots[slot]
    if (process === undefined) return
    process.life.isDead = true
    ends.push({ process, at: now })
    slots[slot] = undefined
  }

  /** What a running process does each second, and it does at most a second late. */
  async function beat({ sums }: Process): Promise<void> {
    sums.renewRole()
    if (!sums.hasWriter()) await sums.becomeWriter()
  }

  async function attempt(slot: number, step: (process: Process) => unknown): Promise<void> {
    const process = slots[slot]
    if (process === undefined) return
    danger = dice.chance(0.1) ? 0.05 : 0
    try {
      await step(process)
    } catch (error) {
      if (!(error instanceof Killed)) faults.push(error)
    }
    danger = 0
    for (let turns = 0; turns < 4; turns += 1) await new Promise(setImmediate)
    if (process.life.isDead) end(slot)
  }

  function log(): void {
    disk.append(dice.pick(files), `\nline ${written}\n`)
    written += 1
  }

  async function pass(): Promise<void> {
    now += dice.below(400)
    for (const [slot, process] of slots.entries()) {
      if (process === undefined || now - process.shownAt < 600) continue
      process.shownAt = now
      await attempt(slot, beat)
    }
  }

  await start(0)
  for (let step = 0; step < 250; step += 1) {
    await pass()
    const [slot, what] = [dice.below(2), dice.below(100)]
    if (what < 40) log()
    else if (slots[slot] === undefined) await start(slot)
    else if (what < 70) await attempt(slot, ({ sums }) => sums.tail.readEnds(dice.chance(0.5)))
    else if (what < 85) await attempt(slot, ({ sums }) => sums.tail.readAll())
    else if (what < 88) end(slot)
    else if (what < 90) {
      // It ends in order, and nothing is told twice or not at all.
      const process = slots[slot]
      if (process === undefined) continue
      await process.sums.tail.readAll().catch(() => {})
      if (process.life.isDead) end(slot)
      else {
        process.sums.close()
        slots[slot] = undefined
      }
    } else if (what < 92 && slots[slot] !== undefined) {
      // It hangs, and the other one may begin to write; then it reads before it does anything else.
      ends.push({ process: slots[slot], at: now })
      const hung = slots[slot]
      slots[slot] = undefined
      for (let i = 0; i < 25; i += 1) {
        await pass()
        if (dice.chance(0.5)) log()
      }
      slots[slot] = hung
      await attempt(slot, ({ sums }) => sums.tail.readAll())
    } else if (what < 95) {
      names += 1
      const name = dice.pick(files)
      disk.move(name, `${name}.${now + names}`)
      disk.create(name)
    } else if (what < 97) await attempt(slot, ({ sums }) => sums.save())
  }
  // Whoever is left reads to the end.
  for (let step = 0; step < 60; step += 1) {
    await pass()
    for (const slot of slots.keys()) {
      if (slots[slot] === undefined) await start(slot)
      await attempt(slot, ({ sums }) => sums.tail.readAll())
    }
  }
  await new Promise((settle) => setTimeout(settle, 5))
  let twice = 0
  for (let i = 0; i < written; i += 1) {
    const all = told.get(`line ${i}`) ?? []
    if (all.length === 0) faults.push(`line ${i} was not told`)
    twice += Math.max(0, all.length - 1)
    for (const { by, at } of all.slice(0, -1)) {
      const isNear = ends.some((end) => end.process === by && at <= end.at && at >= end.at - lateMs)
      if (!isNear) faults.push(`line ${i} was told twice`)
    }
  }
  return { written, twice, ends: ends.length, faults }
}

test('each line is told once, whichever process writes', async (t) => {
  const { seed } = createRandom()
  t.comment(`SEED=${seed}`)
  const all = { written: 0, twice: 0, ends: 0 }
  for (let i = 0; i < Number(process.env.SCHEDULES ?? 12); i += 1) {
    const { faults, ...figures } = await runOnce(seed + i)
    t.strictSame(faults, [], `seed ${seed + i}`)
    all.written += figures.written
    all.twice += figures.twice
    all.ends += figures.ends
  }
  t.ok(all.ends > 10, JSON.stringify(all))
})
