/** The load generator's process: receives a plan over the IPC channel, and returns its result. */

import { type Connection, openConnection } from './connection.ts'
import type { Plan } from './plan.ts'
import { runLoad } from './run-load.ts'

/** By URL and number; they stay open between runs, so that no run includes connecting. */
const pools = new Map<string, readonly Connection[]>()

async function poolOf({ url, connections }: Plan): Promise<readonly Connection[]> {
  const name = `${connections} ${url}`
  const known = pools.get(name)
  if (known !== undefined) return known
  const opened = await Promise.all(
    Array.from({ length: connections }, () => openConnection(new URL(url))),
  )
  pools.set(name, opened)
  return opened
}

/** A late response would be attributed to the next run. */
function discard(pool: readonly Connection[]): void {
  for (const connection of pool) connection.close()
  for (const [name, known] of pools) if (known === pool) pools.delete(name)
}

process.on('message', async (plan: Plan) => {
  try {
    const pool = await poolOf(plan)
    const result = await runLoad(plan, pool)
    if (Object.keys(result.failed).length > 0) discard(pool)
    process.send?.({ result })
  } catch (error) {
    process.send?.({ problem: (error as Error).message })
  }
})
// The parent handles a Ctrl-C at the terminal.
process.on('SIGINT', () => {})
process.once('disconnect', () => process.exit(0))
