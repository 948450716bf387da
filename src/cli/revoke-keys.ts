/** `tollgate key revoke`. */

import type { ApiKeyResponse } from '../admin/keys/api-key-record.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { type ApiClient, connectApi } from './api-client.ts'
import { type FlagsOf, type Run, Unreachable, WrongCall } from './command.ts'
import type { revokeKeysFlags } from './commands/keys.ts'
import {
  type ChangedKey,
  keyPath,
  keysPath,
  type Revoked,
  searchKeys,
  warnOfPending,
} from './key-client.ts'
import { formatJson, printable } from './output.ts'
import { type CommandIo, confirm } from './terminal.ts'

type Given = FlagsOf<typeof revokeKeysFlags>

/** Revokes keys; returns the exit status: 1 if not all were revoked, 3 if that is because the gateway does not respond. */
export const revokeKeys: Run<typeof revokeKeysFlags> = async ({ operands: ids, flags }, io) => {
  if (flags.all) {
    if (ids.length > 0) throw new WrongCall('Either --all or ids, not both.')
    if (flags.user !== undefined) return await revokeOfUser(flags.user, flags, io)
    // A script that has lost its keys must not stop at a question.
    if (!flags.yes && !(await confirm(io, 'Revoke all of your active keys?', true))) return 1
    return await revokeAll(undefined, flags, io)
  }
  if (flags.user !== undefined) {
    if (ids.length > 0) throw new WrongCall('Either --user or ids, not both.')
    return await revokeOfUser(flags.user, flags, io)
  }
  if (ids.length === 0) throw new WrongCall('Name the ids of the keys, -, --user or --all.')
  if (ids.includes('-')) {
    if (ids.length > 1) throw new WrongCall('Either - or ids, not both.')
    return await revokeGiven(flags, io)
  }
  const ask = connectApi(io, flags)
  const revoked: ChangedKey[] = []
  let failure = 1
  for (const id of ids) {
    try {
      const record = (await ask('DELETE', keyPath(id))) as ChangedKey
      revoked.push(record)
      if (!flags.json) io.out(printable(`Revoked ${record.id} (${record.name}).`))
      warnOfPending(record, io)
    } catch (error) {
      if (error instanceof Unreachable) failure = 3
      io.err(`${printable(id)}: ${(await endOf(ask, id)) ?? errorMessage(error)}`)
    }
  }
  if (flags.json) io.out(formatJson({ object: 'list', data: revoked }))
  return revoked.length === ids.length ? 0 : failure
}

/**
 * The note that a key cannot be revoked because it has ended already; undefined if it has not, or is not the caller's.
 */
async function endOf(ask: ApiClient, id: string): Promise<string | undefined> {
  const found = (await ask('GET', keyPath(id)).catch(() => undefined)) as ApiKeyResponse | undefined
  if (found === undefined || found.status === 'active') return undefined
  return `This API key is ${printable(found.status)} already.`
}

/** The key is only read from standard input, because all users of the machine can see arguments. */
async function revokeGiven(flags: Given, io: CommandIo): Promise<number> {
  const ask = connectApi(io, flags)
  const key = (await io.read('Key')).trim()
  if (!key.startsWith('sk-') || /\s/.test(key)) {
    throw new Error('Standard input must be one whole key, sk-….')
  }
  // Authenticated by the key itself.
  const record = (await ask('POST', `${keysPath}/revoke`, { key })) as ChangedKey
  const { id, name, username } = record
  const said = printable(`Revoked ${id} (${name}) of ${username}.`)
  io.out(flags.json ? formatJson(record) : said)
  warnOfPending(record, io)
  return 0
}

async function revokeOfUser(user: string, flags: Given, io: CommandIo): Promise<number> {
  const ask = connectApi(io, flags)
  const name = printable(user)
  if (!flags.yes) {
    const filters = { status: ['active'], includeEphemeral: true, username: user }
    const sort = { by: 'created_at', order: 'desc' }
    const { length } = await searchKeys(ask, { filters, sort }, Number.POSITIVE_INFINITY)
    if (length === 0) {
      io.err(`${name} has no active key.`)
      return 0
    }
    const keys = length === 1 ? 'the 1 active key' : `all ${length} active keys`
    if (!(await confirm(io, `Revoke ${keys} of ${name}?`))) return 1
  }
  return await revokeAll(user, flags, io)
}

/** Revokes the caller's keys if `username` is undefined. */
async function revokeAll(
  username: string | undefined,
  flags: Given,
  io: CommandIo,
): Promise<number> {
  const ask = connectApi(io, flags)
  const result = (await ask('POST', `${keysPath}/bulk-revoke`, { username })) as Revoked & {
    readonly message: string
  }
  io.out(flags.json ? formatJson(result) : printable(result.message))
  warnOfPending(result, io)
  return 0
}
