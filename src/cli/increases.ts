/** `tollgate increases`: temporary increases of limits, granted by administrators. */

import type { IncreaseList } from '../admin/increases/increases.ts'
import { connectApi } from './api-client.ts'
import { type FlagsOf, type Run, WrongCall } from './command.ts'
import type { gatewayFlags } from './commands/flags.ts'
import type { grantIncreaseFlags, newRequestFlags } from './commands/increases.ts'
import { type Revoked, warnOfPending } from './key-client.ts'
import { formatFigure, showSharers } from './limit-cells.ts'
import { type Cells, formatJson, printable, renderCells } from './output.ts'
import type { CommandIo } from './terminal.ts'
import { parseTimeFlag } from './time-flag.ts'

type Increase = IncreaseList['data'][number]

const path = '/v1/admin/increases'

/** Returns the exit status, as the others. */
export const showIncreases: Run<typeof gatewayFlags> = async ({ flags }, io) => {
  const list = (await connectApi(io, flags)('GET', path)) as IncreaseList
  const rows = list.data.map((each) => ({
    ID: each.id,
    ...toIncreaseCells(each, list.currency),
    BY: each.createdBy,
    NOTE: each.effective === false ? 'no effect' : '',
  }))
  if (flags.json) io.out(formatJson(list))
  else if (rows.length === 0) io.err('No limit is increased.')
  else io.out(renderCells(rows))
  return 0
}

/** `tollgate increases grant`. */
export const grantIncrease: Run<typeof grantIncreaseFlags> = async ({ flags }, io) => {
  const { key: keyId, user } = flags
  const body = { ...readWantedLimit(flags), keyId, user }
  const status = await change('POST', path, body, 'Increased', flags, io)
  if (user !== undefined && !(await hasKey(user, flags, io)))
    io.err(
      printable(
        `${user} has no active key; if that is a surprise, end the increase: names of users are not checked.`,
      ),
    )
  return status
}

/** True if unknown. The service accepts users without a key, because they may use identity tokens. */
async function hasKey(
  username: string,
  flags: FlagsOf<typeof gatewayFlags>,
  io: CommandIo,
): Promise<boolean> {
  const ask = connectApi(io, flags)
  const asked = { filters: { username, status: ['active'] }, pagination: { limit: 1 } }
  const found = await ask('POST', '/v1/api-keys/search', asked).catch(() => undefined)
  return (found as { readonly data?: readonly unknown[] } | undefined)?.data?.length !== 0
}

/** `tollgate increases end`. */
export const endIncrease: Run<typeof gatewayFlags> = async ({ operands: [id = ''], flags }, io) => {
  return await change('DELETE', `${path}/${encodeURIComponent(id)}`, undefined, 'Ended', flags, io)
}

async function change(
  method: string,
  at: string,
  body: object | undefined,
  done: string,
  flags: FlagsOf<typeof gatewayFlags>,
  io: CommandIo,
): Promise<number> {
  const ask = connectApi(io, flags)
  const changed = (await ask(method, at, body)) as Increase &
    Revoked &
    Pick<IncreaseList, 'currency'>
  const { id, name, limit, until, currency } = changed
  const said = `${done} ${name} to ${formatFigure(limit, currency)} until ${until} (${id}).`
  io.out(flags.json ? formatJson(changed) : printable(said))
  warnOfPending(changed, io, oldLimitWarning)
  return 0
}

/** The warning about processes that have not acknowledged the change. */
export const oldLimitWarning = 'the old limit may still apply there'

/** The fields of a grant or a request for the API; throws if a required flag is missing. */
export function readWantedLimit(flags: FlagsOf<typeof newRequestFlags>) {
  const { limit: name, to, until, reason, subscription, model, whom } = flags
  if (name === undefined || to === undefined || until === undefined || reason === undefined)
    throw new WrongCall('Give --limit, --to, --until and --reason.')
  return { subscription, model, name, whom, ...readGivenLimit(flags), reason }
}

/** The fields for the API; fields without a flag are omitted. */
export function readGivenLimit({
  to,
  until,
}: {
  to?: string | undefined
  until?: string | undefined
}) {
  const isWhole = /^\d{1,16}$/.test(to ?? '')
  if (to !== undefined && !isWhole && !/^\d{1,10}\.\d{1,9}$/.test(to))
    throw new WrongCall('--to must be a whole number, or an amount such as 60.50 for cost.')
  return { limit: isWhole ? Number(to) : to, until: parseTimeFlag('--until', until, 'ahead') }
}

type Given =
  | ('subscription' | 'model' | 'name' | 'kind' | 'scope' | 'whom' | 'user' | 'keyId')
  | ('limit' | 'until' | 'reason')

/** The limit, its users, and the figure that is granted or requested. */
export function toIncreaseCells(given: Pick<Increase, Given>, currency: string | undefined): Cells {
  const { subscription, model, name, kind, user, keyId, limit, until, reason } = given
  return {
    LIMIT: name,
    OF: keyId === undefined ? (subscription ?? model ?? 'the installation') : `key ${keyId}`,
    FOR: [user, showSharers(given)].filter(Boolean).join(', '),
    KIND: kind,
    TO: formatFigure(limit, currency),
    UNTIL: until,
    REASON: reason,
  }
}
