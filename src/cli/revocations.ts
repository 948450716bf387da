/** `tollgate revocations`: lists the processes that a revocation waits for, and removes dead ones. */

import { forgetReplicas, listReplicas, type Replica } from '../cluster/replicas.ts'
import { toTimestamp } from '../formats/time.ts'
import type { Run } from './command.ts'
import type { jsonFlag } from './commands/flags.ts'
import type { forgetReplicaFlags } from './commands/operate.ts'
import { withDatabase } from './database.ts'
import { formatJson, printable, renderTable } from './output.ts'
import { type CommandIo, confirm } from './terminal.ts'

/** A process that was seen this recently is running: its row would return at once. */
const runningMs = 15_000

/** Lists the processes that a revocation waits for; returns the exit status. */
export const showReplicas: Run<typeof jsonFlag> = async ({ flags }, io) => {
  const found = await withDatabase(io.env, 'revocations', listReplicas)
  if (flags.json) io.out(formatJson({ object: 'list', data: found.map(withTimes) }))
  else if (found.length === 0) io.err('Revocations wait for no process.')
  else io.out(toTable(found))
  return 0
}

/** Adds the times at which the durations begin or end. */
function withTimes(replica: Replica) {
  const now = Date.now()
  return {
    ...replica,
    lastSeenAt: toTimestamp(now - replica.unseenMs),
    servesUntil: toTimestamp(now + replica.servesMs),
  }
}

/** Removes one of them; returns the exit status, 1 if nothing was removed. */
export const forgetReplica: Run<typeof forgetReplicaFlags> = async (
  { operands: [name = ''], flags },
  io,
) => {
  return await withDatabase(io.env, 'revocations', async (sql) => {
    const named = (await listReplicas(sql)).filter((each) => each.name === name)
    if (!(await isSure(name, named, flags.yes, io))) return 1
    await forgetReplicas(
      sql,
      named.map(({ id }) => id),
    )
    io.out(flags.json ? formatJson({ forgotten: name }) : `Forgotten: ${printable(name)}.`)
    return 0
  })
}

/** Explains the consequences, and asks for confirmation. */
async function isSure(
  raw: string,
  named: readonly Replica[],
  yes: boolean,
  io: CommandIo,
): Promise<boolean> {
  const name = printable(raw)
  if (named.length === 0) {
    io.err(`Revocations wait for no process called ${name}.`)
    return false
  }
  if (named.some(({ unseenMs }) => unseenMs < runningMs)) {
    io.err(
      `${name} is running: it has reported to the database in the last 15 seconds. Stop it first.`,
    )
    return false
  }
  const servesMs = Math.max(...named.map((replica) => replica.servesMs))
  io.err(
    `Revocations will no longer wait for ${name}, last seen ${showSpan(named[0]?.unseenMs ?? 0)} ago. ` +
      `If it is only cut off from the database, it may let revoked keys pass for another ${showSpan(servesMs)}.`,
  )
  return yes || (await confirm(io, 'Has this process ended permanently?'))
}

function toTable(found: readonly Replica[]): string {
  const header = ['NAME', 'SEEN', 'MAY SERVE FOR', 'PLACE']
  return renderTable(
    header,
    found.map(({ name, place, unseenMs, servesMs }) => [
      name,
      `${showSpan(unseenMs)} ago`,
      showSpan(servesMs),
      place,
    ]),
    64,
  )
}

/** `3 s`, `12 min`: in whole units, rounded up. */
function showSpan(ms: number): string {
  return ms < 120_000 ? `${Math.ceil(ms / 1_000)} s` : `${Math.ceil(ms / 60_000)} min`
}
