/** `tollgate replicas`: lists the processes that a revocation waits for, and removes dead ones. */

import { parseArgs } from 'node:util'
import { forgetReplicas, listReplicas, type Replica } from '../store/revocations/replicas.ts'
import { withDatabase } from './database.ts'
import { switches } from './flags.ts'
import { printable, renderTable } from './table.ts'
import { agrees, type CommandIo, terminal } from './terminal.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate replicas [--json]
       tollgate replicas forget <name> [--yes]

  (nothing)   lists the processes that a revocation waits for, from the database of DATABASE_URL
  forget      removes a process that will not come back; asks first, unless --yes is given`

type Io = Pick<CommandIo, 'env' | 'out' | 'err' | 'ask'>

/** A process that was seen this recently is running: its row would return at once. */
const runningMs = 15_000

/** Runs the command; returns the exit status: 1 if nothing was removed, 2 for invalid arguments. */
export async function replicas(args: readonly string[], io: Io = terminal): Promise<number> {
  const call = readCall(args, usage, readArguments, io)
  if (typeof call === 'number') return call
  return await withDatabase(io.env, 'replicas', async (sql) => {
    const found = await listReplicas(sql)
    if (call.forget !== undefined) {
      const named = found.filter(({ name }) => name === call.forget)
      const sure = await isSure(named, call, io)
      if (!sure) return 1
      const ids = named.map(({ id }) => id)
      await forgetReplicas(sql, ids)
      io.out(`Forgotten: ${printable(call.forget)}.`)
    } else if (call.json) io.out(JSON.stringify({ object: 'list', data: found }, null, 2))
    else if (found.length === 0) io.err('Revocations wait for no process.')
    else io.out(showReplicas(found))
    return 0
  })
}

interface Call {
  readonly forget: string | undefined
  readonly yes: boolean
  readonly json: boolean
}

function readArguments(args: string[]): Call | undefined {
  const { values, positionals } = parseArgs({
    args,
    options: switches('yes', 'json'),
    allowPositionals: true,
  })
  const [command, name, ...rest] = positionals
  const isList = command === undefined && !values.yes
  const isForget = command === 'forget' && name !== undefined && rest.length === 0 && !values.json
  return isList || isForget ? { forget: name, ...values } : undefined
}

/** Explains the consequences, and asks. */
async function isSure(named: readonly Replica[], call: Call, io: Io): Promise<boolean> {
  const name = printable(call.forget ?? '')
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
  return call.yes || (await agrees(io, 'Is it gone for good?'))
}

function showReplicas(found: readonly Replica[]): string {
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
