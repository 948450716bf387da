/** What happens in a schedule, step by step. */

import { addExact } from '../../../../src/formats/exact.ts'
import type { Gateways } from './gateways.ts'
import type { createPods } from './pods.ts'
import type { Processes } from './processes.ts'
import type { Stores } from './stores.ts'
import {
  alive,
  counters,
  envoyFile,
  type Place,
  processOf,
  type Response,
  scriptFile,
  type World,
} from './world.ts'

/** Takes one of them, in this place: `what` is below 100. */
export function createSteps(
  world: World,
  stores: Stores,
  gateways: Gateways,
  processes: Processes,
  { endPod }: ReturnType<typeof createPods>,
) {
  const { kind, dice, tags, note, places, responses, forgiven, parsed, resets } = world
  const { log, flushEnvoy, reopen, rotate, killEnvoy, copyVolume } = gateways
  const { act, send, tell, start, open } = processes

  async function takeStep(place: Place, slot: number, what: number): Promise<void> {
    const running = processOf(place, slot)
    if (what < 34) {
      for (let i = 1 + dice.below(5); i > 0; i -= 1) log(place)
      if (dice.chance(0.8)) flushEnvoy(place)
    } else if (running === undefined) {
      // Its place is taken by another one sooner or later.
      if (what < 70) await act(0.3, () => start(place, slot))
    } else if (what < 40) {
      await act(0.1, () => running.sums.tail.readAll())
    } else if (what < 46) {
      await act(0.1, async () => running.sums.tail.readEnds())
    } else if (what < 66) {
      await act(0.2, () => send(running, dice.pick(tags)))
    } else if (what < 69) {
      await act(0.2, async () =>
        running.sums.shared.partitions.get(dice.pick(tags))?.readIncomplete(),
      )
    } else if (what < 71) {
      const asked = counters.filter(() => dice.chance(0.4))
      await act(0.2, () => running.sums.shared.fetch(asked, world.now + place.offset))
    } else if (what < 73) {
      note('killed')
      running.life.isDead = true
    } else if (what < 75) {
      await rotate(place, running)
    } else if (what < 77) {
      note('Envoy killed')
      killEnvoy(place)
    } else if (what < 79) {
      if (processOf(place, 1) !== undefined) return
      const second = await open(place, 1)
      // By mistake, both write.
      if (second === undefined || dice.chance(0.5)) return
      note('two writers')
      await act(0.3, () => second.sums.becomeWriter())
    } else if (what < 80) tell(place)
    else if (what < 81 && kind === 'resets') reset()
    else if (what < 82) stepClock(place)
    else if (what < 84) await special(place)
    else stores.fault()
    if (kind === 'durable' && dice.chance(0.1)) {
      await act(0, async () => processOf(place, slot)?.sums.shared.saveLong())
    }
  }

  function reset(): void {
    const counter = dice.below(counters.length)
    note('reset')
    const used = dice.chance(0.5) ? 0 : addExact(world.large, 1 + dice.below(1_000))
    resets.push({ counter, at: world.now, used, untold: new Set(alive(world)) })
    // By a gateway's clock that is ahead, they ended after it.
    for (const number of parsed) {
      if ((responses[number] as Response).time > world.now) forgiven.add(number)
    }
  }

  function stepClock(place: Place): void {
    if (kind === 'clocks' && dice.chance(0.5)) {
      note('clock steps')
      place.offset += dice.below(8_000_000) - 4_000_000
    } else {
      const offset = place.offset + dice.below(2_000) - 1_000
      place.offset = Math.max(-3_000, Math.min(3_000, offset))
    }
  }

  async function special(place: Place): Promise<void> {
    if (['pods', 'ends', 'taken', 'durable'].includes(kind)) await endPod(place)
    if (kind === 'copies' && !places.some(({ name }, i) => name !== `g${i}`)) copyVolume(place)
    if (kind === 'deleted') {
      note('file deleted')
      flushEnvoy(place)
      place.disk.files.delete(dice.pick([scriptFile, envoyFile]))
      reopen(place)
    }
    if (kind === 'checkpoint') {
      note('checkpoint deleted')
      for (const name of [...place.disk.files.keys()]) {
        if (name.startsWith('kept/')) place.disk.files.delete(name)
      }
      for (const running of place.processes) if (running !== undefined) running.life.isDead = true
    }
  }

  return takeStep
}
