/** Searches for texts that cost more than plain ones, by hill-climbing on the measured cost. */
import { setTimeout as delay } from 'node:timers/promises'
import { createDice } from '../gateway/dice.ts'
import { type Place, places } from './places.ts'
import { drawUnit, fill, isFresh, knownUnits, mutate, type Unit } from './shapes.ts'
import type { World } from './world.ts'

export interface Find {
  readonly place: string
  readonly unit: Unit
  /** The cost in times of the plain one, the lowest of the repetitions. */
  readonly ratio: number
  readonly status: number
}

export interface SearchOptions {
  readonly world: World
  readonly seed: number
  /** How long to search, beginning with the known shapes; or for how many texts. */
  readonly seconds: number
  readonly most?: number
  /** A find costs more than this many times the plain text of its length. */
  readonly limit: number
  /** How many plain exchanges a first round compares with; a find is compared with more. */
  readonly calibrateBy?: number
  readonly only?: RegExp | undefined
  readonly onFind: (find: Find) => void
}

export interface Score {
  readonly tried: number
  /** The most expensive text of each place that is no find. */
  readonly highest: ReadonlyMap<string, Tried>
}

interface Tried {
  readonly unit: Unit
  readonly ratio: number
  readonly status: number
}

/** CPU of the plain exchanges that a first round compares with, and of those that confirm a find. */
const lookMicros = 20_000
const confirmMicros = 100_000
const maxRepetitions = 3
/** Refusals are logged a few times a second, so an expensive line follows a pause. */
const logSecondMs = 1_100
const maxFindsOfPlace = 3
const maxKept = 4
const maxFresh = 100

export async function search(options: SearchOptions): Promise<Score> {
  const {
    world,
    seed,
    seconds,
    most = Number.POSITIVE_INFINITY,
    limit,
    calibrateBy = 120,
    only = /./,
    onFind,
  } = options
  const dice = createDice(seed)
  const highest = new Map<string, Tried>()
  let tried = 0

  const open = []
  // Code that is new costs more than it will.
  for (const place of places.slice(0, 1)) await world.measure(plainOf(place, world), 300)
  for (const place of places.filter(({ name }) => only.test(name))) {
    open.push({
      place,
      plain: await calibrate(world, place, calibrateBy),
      queue: [...knownUnits(place.kind)],
      best: [] as Tried[],
      finds: 0,
    })
  }

  const endsAt = performance.now() + seconds * 1_000
  const isOver = () => tried >= most || performance.now() >= endsAt
  while (!isOver()) {
    let left = 0
    for (const lane of open) {
      if (isOver()) break
      if (lane.finds >= maxFindsOfPlace) continue
      left += 1
      const { place, plain, queue, best } = lane
      const kept = best.length > 0 && dice.chance(70) ? dice.pick(best) : undefined
      const unit =
        queue.shift() ??
        (kept === undefined ? drawUnit(place.kind, dice) : mutate(kept.unit, place.kind, dice))
      tried += 1
      const first = await compare(world, place, unit, plain)
      const confirmed = first.ratio > limit ? await confirm(world, place, unit, limit) : undefined
      if (confirmed === undefined) {
        keep(best, { ...first, unit, ratio: Math.min(first.ratio, limit) })
        continue
      }
      lane.finds += 1
      onFind({ place: place.name, ...confirmed, unit: await minimise(world, place, unit, limit) })
    }
    if (left === 0) break
  }
  for (const { place, best } of open) if (best[0] !== undefined) highest.set(place.name, best[0])
  return { tried, highest }
}

function keep(best: Tried[], tried: Tried): void {
  const text = tried.unit.join('')
  if (best.some(({ unit }) => unit.join('') === text)) return
  best.push(tried)
  best.sort((a, b) => b.ratio - a.ratio)
  best.length = Math.min(best.length, maxKept)
}

const plainOf = ({ plain, length, exchange }: Place, world: World) =>
  exchange(fill([plain], length), world)
/** As many different exchanges as are measured, if each text of the unit is another one. */
const oddOf = ({ length, exchange }: Place, unit: Unit, world: World, count: number) =>
  Array.from({ length: isFresh(unit) ? Math.min(count, maxFresh) : 1 }, () =>
    exchange(fill(unit, length), world),
  )

/** Microseconds of a plain exchange. */
async function calibrate(world: World, place: Place, count: number): Promise<number> {
  const exchange = plainOf(place, world)
  await world.measure(exchange, 10)
  const { micros } = await world.measure(exchange, count)
  return Math.max(micros, 50)
}

async function compare(world: World, place: Place, unit: Unit, plain: number) {
  const count = countFor(lookMicros, plain)
  const { micros, status } = await world.measure(oddOf(place, unit, world, count), count)
  return { ratio: micros / plain, status }
}

/** Compares anew, in turns; undefined unless each repetition is above the limit. */
async function confirm(
  world: World,
  place: Place,
  unit: Unit,
  limit: number,
  repetitions = maxRepetitions,
) {
  let lowest = { ratio: Number.POSITIVE_INFINITY, status: 0 }
  for (let round = 0; round < repetitions; round += 1) {
    const plain = await world.measure(plainOf(place, world), 500)
    await delay(logSecondMs)
    const count = countFor(confirmMicros, plain.micros)
    const odd = await world.measure(oddOf(place, unit, world, count), count)
    const ratio = odd.micros / plain.micros
    if (!(ratio > limit)) return undefined
    if (ratio < lowest.ratio) lowest = { ratio, status: odd.status }
  }
  return lowest
}

/** Removes atoms as long as the text stays a find. */
async function minimise(world: World, place: Place, unit: Unit, limit: number): Promise<Unit> {
  let least = unit
  for (let at = unit.length - 1; at >= 0 && least.length > 1; at -= 1) {
    const shorter = least.toSpliced(at, 1)
    if ((await confirm(world, place, shorter, limit, 1)) !== undefined) least = shorter
  }
  return least
}

function countFor(micros: number, each: number): number {
  return Math.max(2, Math.ceil(micros / each))
}

/** What a text costs, as a line. */
export function show({ place, ratio, unit, status }: Find): string {
  const text = JSON.stringify(unit.join(''))
  const shown = text.length > 200 ? `${text.slice(0, 200)}… (${text.length})` : text
  return `${place}: ${ratio.toFixed(1)} times, ${shown}, status ${status}`
}
