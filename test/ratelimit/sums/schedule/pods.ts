/** Gateways of a schedule that end: in order, lost with their disks, or gone on with under their name. */

import type { Gateways } from './gateways.ts'
import type { Processes } from './processes.ts'
import type { Stores } from './stores.ts'
import { alive, counters, type Place, processOf, type Response, type World } from './world.ts'

export function createPods(world: World, stores: Stores, gateways: Gateways, processes: Processes) {
  const { kind, dice, note, responses, written } = world
  const { links } = stores
  const { addPlace, flushEnvoy } = gateways
  const { start, send, settleBackground } = processes

  function end(place: Place): void {
    place.isGone = true
    for (const running of place.processes) if (running !== undefined) running.life.isDead = true
    place.processes = []
  }

  async function endPod(place: Place): Promise<void> {
    if (alive(world).length === 1 && dice.chance(0.5)) return
    const isClean = kind !== 'pods' || dice.chance(0.6)
    if (isClean && !(await endWell(place))) return
    note(isClean ? 'pod ended' : 'pod lost')
    for (const number of place.buffered) {
      if (!written.has(number))
        responses[number] = { ...(responses[number] as Response), which: [] }
    }
    end(place)
    const fresh = addPlace()
    if (kind !== 'taken') {
      await start(fresh, 0)
      return
    }
    // It goes on under the name of the one that has ended, from what the store has of it.
    Object.assign(fresh, { name: place.name, offset: place.offset })
    world.isDiskSlow = false
    while (!processOf(fresh, 0)?.sums.isWriter) await start(fresh, 0)
    for (const link of links) Object.assign(link, { isDown: false, trouble: 0 })
    for (const at of [world.now, world.now + 1_000]) {
      await processOf(fresh, 0)?.sums.shared.fetch(counters, at + fresh.offset)
    }
    await settleBackground()
  }

  /** Reads to the end and has it acknowledged; false if the store does not answer. */
  async function endWell(place: Place): Promise<boolean> {
    flushEnvoy(place)
    await settleBackground()
    const running = processOf(place, 0)
    running?.sums.renewRole()
    if (!running?.sums.isWriter) return false
    for (const link of links) link.trouble = 0
    await running.sums.tail.readAll()
    const partitions = [...running.sums.shared.partitions.values()]
    for (const partition of partitions) {
      for (
        let i = 0;
        i < 5 && partition.due + partition.deferred + partition.incomplete > 0;
        i += 1
      ) {
        world.now += 60
        const isAnswered = await send(running, partition.tag).then(
          () => true,
          () => false,
        )
        if (!isAnswered) return false
        await partition.readIncomplete().catch(() => {})
      }
    }
    // Another process may have become the writer meanwhile.
    if (stores.isDatabaseDown || !running.sums.isWriter || partitions.some(({ due }) => due > 0))
      return false
    await running.sums.shared.saveLong()
    return true
  }

  /** A copied volume: this gateway goes on under a new name, with nothing but what is new. */
  function rename(place: Place): void {
    end(place)
    const fresh = addPlace()
    fresh.offset = place.offset
  }

  return { endPod, rename }
}
