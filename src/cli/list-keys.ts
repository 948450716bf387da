/** `tollgate key list`. */

import type { ApiKeyResponse } from '../admin/keys/api-key-record.ts'
import { connectApi } from './api-client.ts'
import { type Run, WrongCall } from './command.ts'
import type { listKeysFlags } from './commands/keys.ts'
import { searchKeys } from './key-client.ts'
import { parseLabels } from './key-flags.ts'
import { formatJson, renderTable } from './output.ts'

/** Lists keys; returns the exit status. */
export const listKeys: Run<typeof listKeysFlags> = async ({ flags }, io) => {
  const statuses = (flags.status ?? []).flatMap((status) => status.split(','))
  const filters = {
    status: statuses.length > 0 ? statuses : flags.all ? [] : ['active'],
    includeEphemeral: flags.all,
    username: flags.user,
    keyPrefix: flags.prefix,
    labelsContain: parseLabels(flags.label),
  }
  const search = { filters, sort: readSort(flags.sort) }
  const limit = readLimit(flags.limit)
  const records = await searchKeys(connectApi(io, flags), search, limit)
  if (flags.json) io.out(formatJson({ object: 'list', data: records }))
  else if (records.length === 0) io.err('There are no such keys.')
  else io.out(showRecords(records))
  return 0
}

/** `name`, `name:desc`; by default names ascend and dates descend. */
function readSort(raw = 'created_at'): { by: string; order: string } {
  const [by = '', order = by === 'name' ? 'asc' : 'desc', ...rest] = raw.split(':')
  const known = ['created_at', 'expires_at', 'last_used_at', 'name']
  if (!known.includes(by) || !['asc', 'desc'].includes(order) || rest.length > 0) {
    throw new WrongCall(`--sort must be one of ${known.join(', ')}, with :asc or :desc.`)
  }
  return { by, order }
}

function readLimit(raw: string | undefined): number {
  if (raw === undefined) return Number.POSITIVE_INFINITY
  if (/^[1-9]\d{0,8}$/.test(raw)) return Number(raw)
  throw new WrongCall('--limit must be a positive integer.')
}

/** The owner is shown only if there are several. */
function showRecords(records: readonly ApiKeyResponse[]): string {
  const several = new Set(records.map(({ username }) => username)).size > 1
  const header = ['ID', 'KEY', 'NAME', 'SUBSCRIPTION', 'STATUS', 'CREATED', 'EXPIRES', 'LAST USED']
  return renderTable(
    several ? [...header, 'USER'] : header,
    records.map((record) => [
      record.id,
      record.keyPrefix ?? '-',
      record.name,
      record.subscription,
      record.ephemeral ? `${record.status} (ephemeral)` : record.status,
      showDate(record.createdAt),
      `${showDate(record.expiresAt)}${record.expiresSoon ? ' (soon)' : ''}`,
      showDate(record.lastUsedAt),
      ...(several ? [record.username] : []),
    ]),
  )
}

/** `2026-03-01 12:00Z`, or a dash. */
function showDate(timestamp: string | null | undefined): string {
  return timestamp ? `${timestamp.slice(0, 16).replace('T', ' ')}Z` : '-'
}
