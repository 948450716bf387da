/**
 * What the requests of each window were charged, by the gateway's journal, and what they have produced, by the model
 * server's own tally.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { parseJournalLine } from '../../src/journal/journal-line.ts'
import { chargeOf } from '../../src/usage/rules/usage.ts'
import type { ModelServer } from './model-server.ts'
import { poll } from './poll.ts'

/** A request that was admitted. */
export interface AdmittedRequest {
  /** Its header `x-sim-label`, which no other request has. */
  readonly label: string
  /** The gateway's request id. */
  readonly id: string
  /** The gateway that admitted it. */
  readonly window: string
  /** Its maximum of output tokens. */
  readonly most: number
}

/** Tokens. */
export interface WindowAccount {
  charged: number
  produced: number
  /** Produced by answers that did not report all of it, and not charged. */
  unreported: number
  /** Produced by requests beyond their ceilings: the expected input, and the maximum output. */
  exceeded: number
}

/** The sum of all windows. */
export function sumOf(windows: Iterable<WindowAccount>): WindowAccount {
  const sum = { charged: 0, produced: 0, unreported: 0, exceeded: 0 }
  for (const each of windows) {
    for (const name of ['charged', 'produced', 'unreported', 'exceeded'] as const) {
      sum[name] += each[name]
    }
  }
  return sum
}

/** The accounts by window; waits until the model server has ended all answers and the journal has them. */
export async function accountWindows(
  requests: readonly AdmittedRequest[],
  journal: string,
  model: Pick<ModelServer, 'tally'>,
): Promise<ReadonlyMap<string, WindowAccount>> {
  const isIdle = async () => (await model.tally()).open === 0
  await poll(isIdle, 'all answers have ended', 30_000)
  const { labels = {}, produced = {} } = await model.tally()
  let lines = readJournal(journal)
  const isWhole = () => {
    lines = readJournal(journal)
    // A request that produced nothing may have failed, or was aborted before its answer began.
    return requests.every(({ id, label }) => lines.has(id) || !produced[label])
  }
  await poll(isWhole, 'the journal has all requests', 30_000)
  const windows = new Map<string, WindowAccount>()
  for (const { label, id, window, most } of requests) {
    const account = windows.get(window) ?? { charged: 0, produced: 0, unreported: 0, exceeded: 0 }
    windows.set(window, account)
    const usage = lines.get(id)
    const own = produced[label] ?? 0
    const charged = (usage && chargeOf(usage, 'allow').tokens) ?? 0
    account.charged += charged
    account.produced += own
    if ((labels[label] ?? 0) < own) account.unreported += Math.max(0, own - charged)
    if (usage?.estimate) account.exceeded += Math.max(0, own - usage.estimate.input - most)
  }
  return windows
}

/** The usage of metered requests that have ended, by request id, of all files of a journal. */
export function readJournal(path: string) {
  const folder = dirname(path)
  const stem = basename(path, '.jsonl')
  const files = readdirSync(folder).filter(
    (name) => name.startsWith(stem) && /\.jsonl(\.\d+)?$/.test(name),
  )
  const texts = files.flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'))
  const lines = texts.flatMap((text) => parseJournalLine(text) ?? [])
  const ended = lines.filter(({ state, isMetered }) => isMetered && state === 'ended')
  return new Map(ended.map(({ usage }) => [usage.response.id, usage]))
}
