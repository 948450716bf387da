/**
 * Random schedules of faults. After the dust settles each open window's total in the store, and what each
 * process knows of it, must be the sum of the lines that the gateways' files have for it.
 */

import { addExact, type ExactInt, subtractExact } from '../../../src/formats/exact.ts'
import { windowKey } from '../../../src/ratelimit/redis/keys.ts'
import { longMs } from '../../../src/ratelimit/rules/sums.ts'
import { boundsAt, type WindowedCounter, windowAt } from '../../../src/ratelimit/rules/windows.ts'
import type { GatewaySums } from '../../../src/ratelimit/sums/gateway-sums.ts'
import { createGateways } from './schedule/gateways.ts'
import { createPods } from './schedule/pods.ts'
import { createProcesses } from './schedule/processes.ts'
import { createSteps } from './schedule/steps.ts'
import { createStores } from './schedule/stores.ts'
import {
  alive,
  counters,
  createWorld,
  type Kind,
  type Outcome,
  type Place,
  processOf,
  type Response,
  resetsIn,
  unlessKilled,
} from './schedule/world.ts'

export { counters, type Kind, kinds, type Outcome } from './schedule/world.ts'

export async function runSchedule(seed: number, kind: Kind): Promise<Outcome> {
  const world = createWorld(seed, kind)
  const { dice, tags, tagOf, responses, written, forgiven, resets, faults } = world
  const stores = createStores(world)
  const { links } = stores
  const processes = createProcesses(world, stores, (place) => pods.rename(place))
  const { send, tell, start, settleBackground } = processes
  const gateways = createGateways(world, processes.act)
  const { addPlace, flushEnvoy } = gateways
  const pods = createPods(world, stores, gateways, processes)
  const takeStep = createSteps(world, stores, gateways, processes, pods)
  const lastKnown = new WeakMap<GatewaySums, Map<string, ExactInt>>()
  let above = 0

  const count = 1 + dice.below(4)
  for (let i = 0; i < count; i += 1) await start(addPlace(), 0)
  const mishaps = dice.pick([0, 0.1, 0.3])
  const steps = 60 + dice.below(100)
  for (let step = 0; step < steps; step += 1) {
    const place = dice.pick(alive(world))
    const slot = processOf(place, 1) !== undefined && dice.chance(0.4) ? 1 : 0
    world.now += dice.chance(0.02) ? dice.below(4_000_000) : dice.below(600)
    world.isDiskSlow = dice.chance(0.2)
    for (const link of links) link.trouble = mishaps
    await takeStep(place, slot, dice.below(100))
    if (kind !== 'resets') check(place, slot)
  }

  /** What a process knows is never more than what was used, and never less than it was. */
  function check(place: Place, slot: number): void {
    const running = processOf(place, slot)
    if (running === undefined) return
    const at = world.now + place.offset
    const known = lastKnown.get(running.sums) ?? new Map<string, ExactInt>()
    lastKnown.set(running.sums, known)
    for (const [which, counter] of counters.entries()) {
      const { used } = running.sums.shared.read(counter, at)
      const { start: since, end: until } = boundsAt(counter.window, counter.owner, at)
      const isIn = ({ time }: Response): boolean => time >= since && time < until
      const all = responses.filter((each) => each.which.includes(which) && isIn(each))
      const most = all.reduce<ExactInt>((sum, { tokens }) => addExact(sum, tokens), 0)
      const name = `${which} ${since}`
      const least = kind === 'exact' ? (known.get(name) ?? 0) : 0
      if (used > most || used < least) above += 1
      known.set(name, used)
    }
  }

  // The dust settles.
  world.danger = 0
  await settleBackground()
  stores.deliverLate()
  stores.heal()
  for (const place of alive(world)) {
    flushEnvoy(place)
    if (processOf(place, 0) === undefined) await start(place, 0)
    tell(place)
  }

  /** Every process reads its files, and the writers write; with `fetches` all counters are in use everywhere. */
  async function settle(fetches: boolean): Promise<void> {
    for (const place of alive(world)) {
      const running = place.processes.filter((each) => each !== undefined && !each.life.isDead)
      for (const each of running) each?.sums.renewRole()
      if (!running.some((each) => each?.sums.isWriter))
        await running[0]?.sums.becomeWriter().catch(unlessKilled)
      for (const each of running) {
        if (each === undefined) continue
        await each.sums.tail.readAll().catch(unlessKilled)
        for (const tag of tags) {
          for (let i = 0; i < 3; i += 1) await send(each, tag).catch(unlessKilled)
          await each.sums.shared.partitions.get(tag)?.readIncomplete().catch(unlessKilled)
        }
        if (fetches) await each.sums.shared.fetch(counters, world.now + 1).catch(unlessKilled)
      }
    }
    world.now += 60
  }
  // What nobody asks for is restored too, but for single evicted keys, and what only the database has.
  const inUse = kind === 'evicted' || kind === 'durable' || kind === 'resets'
  for (let round = 0; round < 8; round += 1) {
    await settle(inUse)
    await settleBackground()
  }

  const outcome: Outcome = {
    ...{ seed, compared: 0, high: 0, low: 0, highBy: 0, lowBy: 0, disagree: 0, above, faults },
  }
  const shouldKnow = new Map<WindowedCounter, ExactInt>()
  for (const [which, counter] of counters.entries()) {
    const window = windowAt(counter, world.now, resetsIn(world).get(counter.key))
    if (window.end <= world.now + 10_000 || (kind === 'durable' && window.ms < longMs)) continue
    const begun = resets.find((each) => each.counter === which && each.at === window.since)
    let expected: ExactInt = begun?.used ?? 0
    let mayLack: ExactInt = 0
    for (const [number, response] of responses.entries()) {
      if (!written.has(number) || !response.which.includes(which)) continue
      if (windowAt(counter, response.time, resetsIn(world).get(counter.key)).id !== window.id)
        continue
      expected = addExact(expected, response.tokens)
      if (forgiven.has(number)) mayLack = addExact(mayLack, response.tokens)
    }
    const key = windowKey(tagOf(counter.key), window)
    const fields = stores.fields(key)
    const stored = fields.get('+') ?? 0
    const sum = [...fields.values()].reduce<bigint>((all, each) => all + BigInt(each), 0n)
    if (sum !== 2n * BigInt(stored)) outcome.disagree += 1
    outcome.compared += 1
    if (stored > expected) {
      outcome.high += 1
      outcome.highBy = addExact(outcome.highBy, subtractExact(stored, expected))
    }
    if (stored < subtractExact(expected, mayLack)) {
      outcome.low += 1
      outcome.lowBy = addExact(outcome.lowBy, subtractExact(expected, stored))
    }
    if (mayLack === 0) shouldKnow.set(counter, stored)
  }
  await settle(true)
  for (const [counter, stored] of shouldKnow) {
    for (const place of alive(world)) {
      for (const slot of place.processes.keys()) {
        const used = processOf(place, slot)?.sums.shared.read(counter, world.now + 1).used
        if (used !== undefined && used !== stored) outcome.disagree += 1
      }
    }
  }
  return outcome
}
