/** Generates the load of one run on connections that stay open. */

import { buildRequests } from '../cases.ts'
import type { Connection } from './connection.ts'
import { distribute, type LoadResult, type Plan } from './plan.ts'

/** How long a response may take after the run, and the number of failures that ends a run early. */
const timeoutMs = 10_000
const maxFailures = 1_000
const tickMs = 1

export async function runLoad(plan: Plan, connections: readonly Connection[]): Promise<LoadResult> {
  const requests = buildRequests(plan.case, plan.asking)
  const latencies: number[] = []
  const waits: number[] = []
  const refused: Record<string, number> = {}
  const failed: Record<string, number> = {}
  let begun = 0
  let answered = 0
  let failures = 0
  let pending = 0
  const cpuBefore = process.cpuUsage()
  const startedAt = performance.now()
  const endsAt = startedAt + plan.ms
  let lastAt = startedAt

  const over = Promise.withResolvers<void>()
  const isOver = (now: number): boolean => now >= endsAt || failures >= maxFailures

  /**
   * Sends the next request, due at `due` or now; calls `next` when the connection is free again.
   */
  function send(connection: Connection, due: number | undefined, next: (now: number) => void) {
    const request = requests[begun % requests.length] as Buffer
    begun += 1
    pending += 1
    const sentAt = performance.now()
    const dueAt = due ?? sentAt
    connection.send(request, (outcome) => {
      const now = performance.now()
      lastAt = now
      pending -= 1
      if (outcome === 200) {
        answered += 1
        latencies.push(now - dueAt)
        waits.push(sentAt - dueAt)
      } else {
        failures += 1
        const kind = typeof outcome === 'number' ? refused : failed
        kind[outcome] = (kind[outcome] ?? 0) + 1
      }
      next(now)
    })
  }

  function sendAgain(connection: Connection, now: number): void {
    if (!isOver(now)) send(connection, undefined, (later) => sendAgain(connection, later))
    else if (pending === 0) over.resolve()
  }

  /**
   * Requests are due at equal intervals; one without a free connection waits, and its wait counts.
   */
  function sendSteadily(perSecond: number): void {
    const free = [...connections]
    const total = Math.max(1, Math.floor((plan.ms * perSecond) / 1_000))
    const dueAt = (i: number): number => startedAt + (i * 1_000) / perSecond
    const catchUp = (): void => {
      const now = performance.now()
      while (begun < total && failures < maxFailures && dueAt(begun) <= now) {
        const connection = free.pop()
        if (connection === undefined) return
        send(connection, dueAt(begun), () => {
          free.push(connection)
          catchUp()
        })
      }
      if ((begun >= total || failures >= maxFailures) && pending === 0) over.resolve()
    }
    const timer = setInterval(catchUp, tickMs)
    void over.promise.then(() => clearInterval(timer))
  }

  const timer = setTimeout(over.resolve, plan.ms + timeoutMs)
  if (plan.perSecond !== undefined) sendSteadily(plan.perSecond)
  else for (const connection of connections) sendAgain(connection, startedAt)
  await over.promise
  clearTimeout(timer)
  if (pending > 0) failed[`no answer within ${timeoutMs / 1_000} s`] = pending
  const { user, system } = process.cpuUsage(cpuBefore)
  return {
    answered,
    refused,
    failed,
    tookMs: lastAt - startedAt,
    latencyMs: distribute(latencies),
    waitedMs: distribute(waits),
    cpuMicros: user + system,
  }
}
