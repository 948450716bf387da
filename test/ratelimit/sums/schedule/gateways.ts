/** Gateways of a schedule: their disks, and what their Envoys write there. */

import { addExact } from '../../../../src/formats/exact.ts'
import { Disk, LineWriter } from '../model.ts'
import {
  counters,
  envoyFile,
  numberIn,
  type Place,
  type Running,
  scriptFile,
  type World,
} from './world.ts'

export type Gateways = ReturnType<typeof createGateways>

export function createGateways(
  world: World,
  act: (p: number, step: () => Promise<unknown>) => Promise<void>,
) {
  const { dice, note, places, resets, responses, written } = world

  function addPlace(): Place {
    const disk = new Disk()
    const place: Place = {
      ...{ name: `g${places.length}`, disk, offset: dice.below(5_000) - 2_500 },
      ...{ script: new LineWriter(disk, scriptFile), envoy: new LineWriter(disk, envoyFile) },
      ...{ processes: [], isGone: false, buffered: [], reopenBy: Number.POSITIVE_INFINITY },
    }
    places.push(place)
    for (const reset of resets) reset.untold.add(place)
    return place
  }

  function log(place: Place): void {
    // Nobody writes to a renamed file longer than its lines are read, also if time has jumped.
    if (isReopenDue(place)) flushEnvoy(place)
    const which = counters.map((_, n) => n).filter(() => dice.chance(0.4))
    const time = world.now + place.offset - dice.below(50)
    const number =
      responses.push({ time, tokens: addExact(world.large, 1 + dice.below(1_000)), which }) - 1
    const line = JSON.stringify({ i: number, pad: 'x'.repeat(dice.below(40)) })
    if (dice.chance(0.6)) {
      place.script.log(line)
      if (!dice.chance(0.04)) {
        place.script.flush()
        written.add(number)
        return
      }
      // The disk was full: what is torn is told by Envoy.
      place.script.die(dice.below(line.length))
    }
    place.envoy.log(line)
    place.buffered.push(number)
  }

  function flushEnvoy(place: Place): void {
    if (isReopenDue(place)) reopen(place)
    place.envoy.flush()
    for (const number of place.buffered) written.add(number)
    place.buffered = []
  }

  /** Nobody writes to a renamed file longer than its lines are read, also if time has jumped meanwhile. */
  function isReopenDue({ reopenBy }: Place): boolean {
    return world.now >= reopenBy
  }

  function reopen(place: Place): void {
    place.reopenBy = Number.POSITIVE_INFINITY
    place.envoy.reopen()
    place.script.reopen()
  }

  async function rotate(place: Place, running: Running): Promise<void> {
    note('renamed')
    if (isReopenDue(place)) flushEnvoy(place)
    if (place.reopenBy !== Number.POSITIVE_INFINITY) return
    const name = dice.pick([scriptFile, envoyFile])
    const isReopened = dice.chance(0.7)
    // Some were renamed so long ago that they may be removed.
    const at =
      world.now + place.offset - (isReopened && dice.chance(0.7) ? 70_000 + dice.below(5) : 0)
    const bytes = place.disk.files.get(name)?.bytes
    place.disk.move(name, `${name}.${at}`)
    if (bytes !== undefined && dice.chance(0.1)) {
      place.disk.create(`${name}.${at + 1}`).bytes = bytes
    }
    if (isReopened) {
      flushEnvoy(place)
      reopen(place)
    } else place.reopenBy = world.now + 50_000
    await act(0.3, () => running.sums.save())
  }

  function killEnvoy(place: Place): void {
    const lines = place.envoy.die(dice.below(place.envoy.buffered + 1))
    for (const line of lines) {
      const number = numberIn(line)
      if (number !== undefined) written.add(number)
    }
    place.buffered = []
    place.script.die(0)
    place.reopenBy = Number.POSITIVE_INFINITY
  }

  function copyVolume(place: Place): void {
    note('volume copied')
    flushEnvoy(place)
    const copy = addPlace()
    const disk = place.disk.copy()
    const writers = {
      script: new LineWriter(disk, scriptFile),
      envoy: new LineWriter(disk, envoyFile),
    }
    Object.assign(copy, { name: place.name, disk, ...writers })
  }

  return { addPlace, log, flushEnvoy, reopen, rotate, killEnvoy, copyVolume }
}
