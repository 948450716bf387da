/** Sends random requests to twin gateways, while keys, resources and windows change; collects the differences. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../random.ts'
import { endOf } from '../window-ends.ts'
import type { TwinKey, Twins } from './twin-gateways.ts'
import { type AskedTarget, randomRequest, randomTarget } from './twin-requests.ts'
import {
  cappedWindow,
  change,
  documentsOf,
  first,
  shortWindowsOf,
  subscriptionNames,
} from './twin-world.ts'

export interface TwinRun {
  readonly asked: number
  readonly hits: number
  /** Answers of the first by status. */
  readonly statuses: Readonly<Record<number, number>>
  readonly apart: readonly string[]
  /** Number of requests that only one has refused, because the charge is estimated. */
  readonly byEstimates: number
}

export interface TwinRunSettings {
  readonly requests: number
  readonly random: Random
  /** The average number of requests between two changes of resources, and between two of a key. */
  readonly changeEvery: number
  readonly keyChangeEvery: number
  readonly mostApart?: number
}

const caps: readonly object[] = [
  { models: [{ namespace: 'llm', name: 'sim' }] },
  { models: [{ namespace: 'llm', name: 'other' }] },
  { tokenRateLimits: [{ limit: 400, window: cappedWindow }] },
  { tokenRateLimits: [{ limit: 1_000_000, window: '1h' }] },
  { allowedAddresses: ['127.0.0.0/8'] },
  { allowedAddresses: ['192.0.2.0/24'] },
]

/** No request is sent shortly before the end of a window, nor right after it. */
const [beforeMs, afterMs] = [150, 30]

interface RunKey extends TwinKey {
  readonly subscription: string
  /** Whether it has limits of its own. */
  isCapped?: boolean
}

export async function runTwins(twins: Twins, settings: TwinRunSettings): Promise<TwinRun> {
  const { random, requests, changeEvery, keyChangeEvery, mostApart = 20 } = settings
  const of = <T>(list: readonly T[]) => list[random.below(list.length)] as T
  const mint = async (subscription: string, user?: string): Promise<RunKey> => {
    return {
      ...(await twins.mint({ subscription, ...(user !== undefined && { user }) })),
      subscription,
    }
  }
  const keys: RunKey[] = []
  for (const name of subscriptionNames) keys.push(await mint(name))
  // Most requests use keys whose requests may be hits, and two of them share a user.
  keys.push(await mint('plenty', keys[0]?.user))
  const pick = () => random.below(keys.length) % (random.below(6) === 0 ? keys.length : 4)
  let choices = first
  const targets: AskedTarget[] = []
  /** The last requests of each key. */
  const history = new Map<string, readonly string[]>()
  const apart: string[] = []
  const statuses: Record<number, number> = {}
  let byEstimates = 0
  const before = twins.hits()

  /** A new key of the same subscription, or of another if that is gone. */
  async function replace(at: number): Promise<void> {
    const own = keys[at]?.subscription ?? 'plenty'
    const name = choices.gone.has(own)
      ? subscriptionNames.find((each) => !choices.gone.has(each))
      : own
    keys[at] = await mint(name ?? own)
  }

  async function changeKey(at: number): Promise<void> {
    const key = keys[at] as RunKey
    if (random.below(4) === 0) {
      await twins.manage(key, 'DELETE')
      await askOnce(at, 'revoked')
      return replace(at)
    }
    const wanted = of(caps)
    if (!(await twins.manage(key, 'PATCH', wanted))) return
    if ('tokenRateLimits' in wanted) key.isCapped = true
    for (let i = 0; i < 3; i += 1) await askOnce(at, 'changed')
    if ('models' in wanted || 'allowedAddresses' in wanted) await replace(at)
  }

  /** Mostly repeats an earlier request: only that can be a hit. */
  function drawTarget(): AskedTarget | undefined {
    if (targets.length === 0 || random.below(4) === 0) {
      targets.unshift(randomTarget(random))
      targets.splice(8)
    }
    return random.below(2) === 0 ? targets[0] : of(targets)
  }

  async function askOnce(at: number, what: string, target = drawTarget()): Promise<void> {
    const key = keys[at] as RunKey
    const request = randomRequest(random, target as AskedTarget)
    await awayFromEnds(key)
    const sentAt = Date.now()
    const { apart: differing, seen, isEstimates } = await twins.ask(request, key)
    const found = [...differing]
    // Requests that end in different windows are counted in different ones.
    if (endsOf(key, sentAt).some((end) => end < Date.now() + afterMs)) return replace(at)
    if (isEstimates) byEstimates += 1
    statuses[seen.answer.status] = (statuses[seen.answer.status] ?? 0) + 1
    const id = String(seen.answer.headers.find(([name]) => name === 'x-request-id')?.[1])
    const short = `${seen.answer.status} ${request.method} ${request.path} ${id} ${request.body.toString('latin1').slice(0, 200)}`
    const past = history.get(key.key) ?? []
    history.set(key.key, [...past.slice(-3), short])
    if (found.length === 0) return
    const { method, path, headers, body, isChunked } = request
    const text = body.toString('latin1').slice(0, 300)
    const shown = { what, key: key.subscription, method, path, headers, body: text, isChunked }
    found.push(`earlier: ${past.join('\n    ')}`)
    apart.push(`${JSON.stringify(shown)}\n  ${found.join('\n  ')}`)
  }

  let asked = 0
  let at = pick()
  let target: AskedTarget | undefined
  while (asked < requests && apart.length < mostApart) {
    if (random.below(changeEvery) === 0) {
      choices = change(random, choices)
      await twins.put('resources.yaml', documentsOf(twins.model.url, choices))
    }
    if (random.below(keyChangeEvery) === 0) await changeKey(pick())
    // Five of eight are alike: from the third on they may be hits, regardless of the other draws.
    if (asked % 8 < 4) {
      if (random.below(2) === 0) at = pick()
      target = drawTarget()
    }
    await askOnce(at, `request ${asked}`, target)
    asked += 1
  }
  return { asked, hits: twins.hits() - before, statuses, apart, byEstimates }
}

/** The next ends of its windows. */
function endsOf(
  { id, user, subscription, isCapped = false }: RunKey,
  at: number,
): readonly number[] {
  const ends = shortWindowsOf(subscription).map((window) => endOf(window, user, at))
  return isCapped ? [...ends, endOf(cappedWindow, id, at)] : ends
}

async function awayFromEnds(key: RunKey): Promise<void> {
  for (let tries = 0; tries < 5; tries += 1) {
    const left = Math.min(...endsOf(key, Date.now())) - Date.now()
    if (left >= beforeMs) return
    await delay(left + afterMs)
  }
}
