/** Processes of a schedule, which live and die in its gateways. */

import { setImmediate as turn } from 'node:timers/promises'
import type { WindowedCounter } from '../../../../src/ratelimit/rules/windows.ts'
import { openGatewaySums } from '../../../../src/ratelimit/sums/gateway-sums.ts'
import { folderOf, Killed, keptOf, type Life } from '../model.ts'
import { textLines } from '../plain-lines.ts'
import type { Stores } from './stores.ts'
import {
  counters,
  envoyFile,
  numberIn,
  type Place,
  processOf,
  type Reset,
  type Running,
  resetsIn,
  scriptFile,
  unlessKilled,
  type World,
} from './world.ts'

export type Processes = ReturnType<typeof createProcesses>

/** `onCopy`: another gateway lives under this one's name. */
export function createProcesses(
  world: World,
  { connect, longSums }: Stores,
  onCopy: (place: Place) => void,
) {
  const { seed, kind, dice, tags, tagOf, note, background, responses, forgiven, parsed, resets } =
    world

  function beginLife(): Life {
    const life: Life = {
      isDead: false,
      strike() {
        if (life.isDead) throw new Killed()
        if (world.danger === 0 || !dice.chance(world.danger)) return
        note('killed in a step')
        life.isDead = true
        throw new Killed()
      },
    }
    return life
  }

  async function open(place: Place, slot: number): Promise<Running | undefined> {
    const life = beginLife()
    const link = connect(life)
    const known = new Set(resets)
    const opened = await openGatewaySums({
      ...{ gateway: place.name, files: [scriptFile, envoyFile], keptFiles: 1 + (seed % 3) },
      folder: folderOf(place.disk, life, () => world.now + place.offset),
      kept: keptOf(place.disk, life, () => world.isDiskSlow),
      ...{ store: link, tagOf, tags },
      longSums: kind === 'durable' ? longSums : undefined,
      now: () => world.now + place.offset,
      monotonic: () => world.now,
      ...textLines((text) => readLine(text, known)),
      resets: resetsIn(world),
      onLoss: () => note('loss noticed'),
      onFault: () => {},
      onDouble() {
        note('double noticed')
        // A late call of one that has ended looks the same where its name was taken over.
        if (kind === 'copies') onCopy(place)
      },
    }).catch(unlessKilled)
    if (opened === undefined) return undefined
    const running: Running = { sums: opened, life, link, sending: new Set(), known }
    link.between = async () => {
      if (dice.chance(0.3)) opened.tail.readEnds()
      if (dice.chance(0.2)) await turn()
    }
    place.processes[slot] = running
    for (const reset of resets) if (!reset.untold.has(place)) tellOf(reset, running)
    return running
  }

  function readLine(text: string, known: ReadonlySet<Reset>) {
    const number = numberIn(text)
    const response = number === undefined ? undefined : responses[number]
    if (number === undefined || response === undefined) return undefined
    parsed.add(number)
    for (const reset of resets) {
      const isLater = response.which.includes(reset.counter) && response.time > reset.at
      if (isLater && !known.has(reset)) forgiven.add(number)
    }
    const { time, tokens, which } = response
    return [
      { at: time, amount: tokens, counters: which.map((i) => counters[i] as WindowedCounter) },
    ]
  }

  /** Runs a step of a process, which it may not survive; sometimes others do not wait for it. */
  async function act(p: number, step: () => Promise<unknown>): Promise<void> {
    world.danger = dice.chance(p) ? 0.03 : 0
    const done = step().catch(unlessKilled)
    background.add(done)
    void done.finally(() => background.delete(done))
    if (dice.chance(0.7)) await done
    world.danger = 0
  }

  function send({ sums, sending }: Running, tag: string): Promise<void> {
    if (sending.has(tag)) return Promise.resolve()
    sending.add(tag)
    const partition = sums.shared.partitions.get(tag)
    return (partition?.send() ?? Promise.resolve()).finally(() => sending.delete(tag))
  }

  function tellOf(reset: Reset, { sums, known }: Running): void {
    known.add(reset)
    sums.reset((counters[reset.counter] as WindowedCounter).key, reset)
  }

  function tell(place: Place): void {
    if (place.processes.length === 0) return
    for (const reset of resets) {
      if (!reset.untold.delete(place)) continue
      for (const running of place.processes) if (running !== undefined) tellOf(reset, running)
    }
  }

  /** A process in this slot, which becomes the writer. */
  async function start_(place: Place, slot: number): Promise<void> {
    const running = processOf(place, slot) ?? (await open(place, slot))
    tell(place)
    await running?.sums.becomeWriter().catch(unlessKilled)
  }

  async function settleBackground(): Promise<void> {
    for (let turns = 0; turns < 8; turns += 1) {
      await Promise.all(background)
      await turn()
    }
  }

  return { act, send, tell, start: start_, open, settleBackground }
}
