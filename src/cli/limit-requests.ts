/** `tollgate limit-requests`: requests of users for limit increases, and decisions of administrators. */

import type { LimitRequestList } from '../admin/increases/limit-requests.ts'
import { connectApi } from './api-client.ts'
import type { FlagsOf, Run } from './command.ts'
import type {
  approveRequestFlags,
  denyRequestFlags,
  listRequestsFlags,
  newRequestFlags,
} from './commands/increases.ts'
import { oldLimitWarning, readGivenLimit, readWantedLimit, toIncreaseCells } from './increases.ts'
import { type Revoked, warnOfPending } from './key-client.ts'
import { formatFigure, showSharers } from './limit-cells.ts'
import { formatJson, printable, renderCells } from './output.ts'
import { readPages } from './pages.ts'
import type { CommandIo } from './terminal.ts'

type LimitRequest = LimitRequestList['data'][number] & Pick<LimitRequestList, 'currency'>

const path = '/v1/limit-requests'

const noneAsked =
  'You have no requests. tollgate limit-requests new asks for an increase of a limit; administrators list the requests of all users with --all.'

/** Returns the exit status, as the others. */
export const showRequests: Run<typeof listRequestsFlags> = async ({ flags }, io) => {
  const ask = connectApi(io, flags)
  const { data, currency } = await readPages<LimitRequestList>(ask, path, [['all', `${flags.all}`]])
  const rows = data.map((each) => {
    const { limit, until, grantedLimit = limit, grantedUntil = until } = each
    return {
      ID: each.id,
      STATE: each.state,
      ...toIncreaseCells({ ...each, limit: grantedLimit, until: grantedUntil }, currency),
      'DECIDED BY': each.decidedBy ?? '',
      WHY: each.decisionReason ?? '',
    }
  })
  if (flags.json) io.out(formatJson({ object: 'list', data, currency }))
  else if (rows.length === 0) io.err(flags.all ? 'No request is open.' : noneAsked)
  else io.out(renderCells(rows))
  return 0
}

/** `tollgate limit-requests new`. */
export const newRequest: Run<typeof newRequestFlags> = async ({ flags }, io) => {
  const body = readWantedLimit(flags)
  const ask = connectApi(io, flags)
  const made = (await ask('POST', path, body)) as LimitRequest
  const said = `Asked for ${body.name} up to ${formatFigure(made.limit, made.currency)} until ${made.until} (${made.id}).`
  io.out(flags.json ? formatJson(made) : printable(said))
  return 0
}

/** `tollgate limit-requests approve`. */
export const approveRequest: Run<typeof approveRequestFlags> = async (
  { operands: [id = ''], flags },
  io,
) => {
  const approved = await decide(id, 'approve', readGivenLimit(flags), flags, io)
  const { name, user, grantedLimit = '', grantedUntil, currency } = approved
  const whose = showSharers(approved) || user
  const said = `${whose} has ${name} up to ${formatFigure(grantedLimit, currency)} until ${grantedUntil}.`
  io.out(flags.json ? formatJson(approved) : printable(said))
  warnOfPending(approved, io, oldLimitWarning)
  return 0
}

/** `tollgate limit-requests deny`. */
export const denyRequest: Run<typeof denyRequestFlags> = async (
  { operands: [id = ''], flags },
  io,
) => {
  const { reason } = flags
  const denied = await decide(id, 'deny', { reason }, flags, io)
  io.out(
    flags.json ? formatJson(denied) : printable(`Denied ${denied.user} more of ${denied.name}.`),
  )
  return 0
}

async function decide(
  id: string,
  verb: 'approve' | 'deny',
  body: object,
  flags: FlagsOf<typeof denyRequestFlags> | FlagsOf<typeof approveRequestFlags>,
  io: CommandIo,
) {
  const ask = connectApi(io, flags)
  const decided = await ask('POST', `${path}/${encodeURIComponent(id)}/${verb}`, body)
  return decided as LimitRequest & Revoked
}
