/** `tollgate key new|list|show|edit|rotate|revoke`: API keys from a terminal. */

import { parseArgs } from 'node:util'
import { errorMessage } from '../runtime/error-message.ts'
import { type ApiServerFlags, apiServerFlags, findApiServer, takeApiServer } from './api-server.ts'
import { createKeyClient, type KeyClient, type KeyRecord, type Revoked } from './key-client.ts'
import { dropFlags, keyFlags, readFields, readLabels, showKey, WrongCall } from './key-fields.ts'
import { printable, renderTable } from './table.ts'
import { agrees, type CommandIo, terminal } from './terminal.ts'
import { asksForHelp } from './usage.ts'

export type KeyIo = Omit<CommandIo, 'input'>

const usage = `Usage: tollgate key new <name> [--subscription <name>] [--expires 30d] [--ephemeral] [<field>]...
       tollgate key show <id>
       tollgate key edit <id> [--name <name>] [<field>]... [--no-labels] [--no-models] [--no-token-limits] [--no-addresses]
       tollgate key list [--status active,revoked,expired] [--all] [--sort name:asc] [--limit <n>] [--user <name>]
       tollgate key rotate <id> [--overlap 24h] [--end-old-after-first-use 1h]
       tollgate key revoke <id>... | - | --all [--user <name>] | --user <name> [--yes]

  new      creates a key; standard output is only the key: KEY=$(tollgate key new laptop)
  show     shows a key with its labels and caps
  edit     changes a key; each field as a whole, what is not given stays. Holders narrow caps, administrators also
           widen and drop them
  list     lists your active keys; --all: revoked, expired and ephemeral ones too
           --prefix sk-tg-4fTr0b: keys that begin with this; --label <name>=<value>: keys with this label
  rotate   gives a key a new secret; standard output is only the key. The present secret ends at once, or works
           for --overlap longer (at most 7d), and ends some time after the new one was first used
  revoke   revokes keys, which cannot be undone; -: the key given on standard input, whoever owns it;
           --all: all of your keys, or of a user; --user: all of a user, after asking

Fields: --description <text>, and any number of --label <name>=<value>, --model <namespace>/<name> (the only models that
the key may call), --token-limit 1000/1m (tokens of this key in a window), --address 192.0.2.0/24 (where it may be used).

Each command takes --json. TOLLGATE_URL is the gateway (default http://127.0.0.1:8000); TOLLGATE_TOKEN, or
the file named by TOLLGATE_TOKEN_FILE, is your identity token.
Flags: --url <url>, --insecure-http (allows sending the token over plain http to another machine).`

const everywhere = {
  ...apiServerFlags,
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const
const forNew = {
  ...everywhere,
  subscription: { type: 'string' },
  expires: { type: 'string' },
  ephemeral: { type: 'boolean' },
  ...keyFlags,
} as const
const forEdit = { ...everywhere, name: { type: 'string' }, ...keyFlags, ...dropFlags } as const
const forList = {
  ...everywhere,
  status: { type: 'string', multiple: true },
  all: { type: 'boolean' },
  sort: { type: 'string' },
  limit: { type: 'string' },
  user: { type: 'string' },
  prefix: { type: 'string' },
  label: { type: 'string', multiple: true },
} as const
const forRotate = {
  ...everywhere,
  overlap: { type: 'string' },
  'end-old-after-first-use': { type: 'string' },
} as const
const forRevoke = {
  ...everywhere,
  all: { type: 'boolean' },
  user: { type: 'string' },
  yes: { type: 'boolean' },
} as const

/** Runs the command; returns the exit status: 1 if it failed, 2 for invalid arguments. */
export async function key(args: string[], io: KeyIo = terminal): Promise<number> {
  const [command, ...rest] = args
  try {
    if (asksForHelp(args) || command === 'help') {
      io.out(usage)
      return 0
    }
    if (command === 'new') return await newKey(rest, io)
    if (command === 'show') return await readKey(rest, io)
    if (command === 'edit') return await editKey(rest, io)
    if (command === 'list') return await listKeys(rest, io)
    if (command === 'rotate') return await rotateKey(rest, io)
    if (command === 'revoke') return await revokeKeys(rest, io)
    throw new WrongCall(command === undefined ? '' : `There is no command "key ${command}".`)
  } catch (error) {
    if (!isWrongCall(error)) {
      io.err(errorMessage(error))
      return 1
    }
    if (error.message !== '') io.err(`${error.message}\n`)
    io.err(usage)
    return 2
  }
}

async function newKey(args: string[], io: KeyIo): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: forNew, allowPositionals: true })
  const [name, ...others] = positionals
  if (others.length > 0)
    throw new WrongCall('One name at a time; put a name with spaces in quotes.')
  if (!name && !values.ephemeral) throw new WrongCall('Give the key a name.')
  const created = await clientOf(values, io).create({
    name,
    subscription: values.subscription,
    expiresIn: values.expires,
    ephemeral: values.ephemeral,
    ...readFields(values),
  })
  io.out(values.json ? toJson(created) : created.key)
  io.err(
    printable(
      `Made the key "${created.name}" (${created.id}) for ${created.subscription}, ` +
        `good until ${created.expiresAt}. This is the only time that it is shown.`,
    ),
  )
  return 0
}

async function readKey(args: string[], io: KeyIo): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: everywhere, allowPositionals: true })
  const record = await clientOf(values, io).read(onlyId(positionals))
  io.out(values.json ? toJson(record) : showKey(record))
  return 0
}

async function editKey(args: string[], io: KeyIo): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: forEdit, allowPositionals: true })
  const id = onlyId(positionals)
  const { name } = values
  const fields = { ...(name !== undefined && { name }), ...readFields(values) }
  if (Object.keys(fields).length === 0) throw new WrongCall('Say what is to be changed.')
  const record = await clientOf(values, io).edit(id, fields)
  io.out(values.json ? toJson(record) : showKey(record))
  if (record.propagation?.state === 'pending') {
    const names = printable(record.propagation.waitingFor?.join(', ') || 'some replica')
    io.err(`Not confirmed by ${names}: there the key may be as before for a while.`)
  }
  return 0
}

function onlyId([id, ...others]: readonly string[]): string {
  if (id === undefined || others.length > 0) throw new WrongCall('Name the id of one key.')
  return id
}

async function listKeys(args: string[], io: KeyIo): Promise<number> {
  const { values } = parseArgs({ args, options: forList })
  const statuses = (values.status ?? []).flatMap((status) => status.split(','))
  const records = await clientOf(values, io).search({
    statuses: statuses.length > 0 ? statuses : values.all ? [] : ['active'],
    includeEphemeral: values.all ?? false,
    user: values.user,
    prefix: values.prefix,
    labels: readLabels(values.label),
    sort: readSort(values.sort),
    limit: readLimit(values.limit),
  })
  if (values.json) io.out(toJson({ object: 'list', data: records }))
  else if (records.length === 0) io.err('There are no such keys.')
  else io.out(showRecords(records))
  return 0
}

async function rotateKey(args: string[], io: KeyIo): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: forRotate, allowPositionals: true })
  const id = onlyId(positionals)
  const rotated = await clientOf(values, io).rotate(id, {
    overlap: values.overlap,
    endOldAfterFirstUse: values['end-old-after-first-use'],
  })
  io.out(values.json ? toJson(rotated) : rotated.key)
  const { name, previous } = rotated
  const until = previous === undefined ? 'has ended' : `works until ${previous.endsAt}`
  io.err(
    printable(
      `Rotated the key "${name}" (${id}). The old secret ${until}. This is the only time that the new one is shown.`,
    ),
  )
  warnOfPending(rotated, io)
  return 0
}

async function revokeKeys(args: string[], io: KeyIo): Promise<number> {
  const { values, positionals: ids } = parseArgs({
    args,
    options: forRevoke,
    allowPositionals: true,
  })
  if (values.all) {
    if (ids.length > 0) throw new WrongCall('Either --all or ids, not both.')
    const result = await clientOf(values, io).revokeAll(values.user)
    io.out(values.json ? toJson(result) : printable(result.message))
    warnOfPending(result, io)
    return 0
  }
  if (values.user !== undefined) {
    if (ids.length > 0) throw new WrongCall('Either --user or ids, not both.')
    return await revokeOfUser(values.user, values, io)
  }
  if (ids.length === 0) throw new WrongCall('Name the ids of the keys, -, --user or --all.')
  if (ids.includes('-')) {
    if (ids.length > 1) throw new WrongCall('Either - or ids, not both.')
    return await revokeGiven(values, io)
  }
  const client = clientOf(values, io)
  const revoked: KeyRecord[] = []
  for (const id of ids) {
    try {
      const record = await client.revoke(id)
      revoked.push(record)
      if (!values.json) io.out(`Revoked ${record.id} (${printable(record.name)}).`)
      warnOfPending(record, io)
    } catch (error) {
      io.err(`${printable(id)}: ${errorMessage(error)}`)
    }
  }
  if (values.json) io.out(toJson({ object: 'list', data: revoked }))
  return revoked.length === ids.length ? 0 : 1
}

/** The key is only read from standard input, because all users of the machine can see arguments. */
async function revokeGiven(values: CommonFlags, io: KeyIo): Promise<number> {
  const client = clientOf(values, io)
  const key = (await io.read()).trim()
  if (!key.startsWith('sk-') || /\s/.test(key)) {
    throw new Error('Give one whole key, sk-…, on standard input.')
  }
  const record = await client.revokeGiven(key)
  const { id, name, username } = record
  const said = `Revoked ${id} (${printable(name)}) of ${printable(username)}.`
  io.out(values.json ? toJson(record) : said)
  warnOfPending(record, io)
  return 0
}

async function revokeOfUser(
  user: string,
  values: CommonFlags & { readonly yes?: boolean | undefined },
  io: KeyIo,
): Promise<number> {
  const client = clientOf(values, io)
  const name = printable(user)
  if (!values.yes) {
    const { length } = await client.search({
      statuses: ['active'],
      includeEphemeral: true,
      user,
      sort: readSort(undefined),
      limit: Number.POSITIVE_INFINITY,
    })
    if (length === 0) {
      io.err(`${name} has no active key.`)
      return 0
    }
    const keys = length === 1 ? 'the 1 active key' : `all ${length} active keys`
    if (!(await agrees(io, `Revoke ${keys} of ${name}?`))) return 1
  }
  const result = await client.revokeAll(user)
  io.out(values.json ? toJson(result) : printable(result.message))
  warnOfPending(result, io)
  return 0
}

/** A revocation is in force, but some serving process has not acknowledged it. */
function warnOfPending({ propagation }: Revoked, io: KeyIo): void {
  if (propagation?.state !== 'pending') return
  const names = printable(propagation.waitingFor?.join(', ') || 'some replica')
  io.err(`Not confirmed by ${names}: it may still let revoked keys pass for a while.`)
}

interface CommonFlags extends ApiServerFlags {
  readonly json?: boolean | undefined
}

function clientOf(values: ApiServerFlags, io: KeyIo): KeyClient {
  return createKeyClient(findApiServer(io.env, takeApiServer(values).server))
}

/** `name`, `name:desc`; by default names ascend and dates descend. */
function readSort(written = 'created_at'): { by: string; order: string } {
  const [by = '', order = by === 'name' ? 'asc' : 'desc', ...rest] = written.split(':')
  const known = ['created_at', 'expires_at', 'last_used_at', 'name']
  if (!known.includes(by) || !['asc', 'desc'].includes(order) || rest.length > 0) {
    throw new WrongCall(`--sort is one of ${known.join(', ')}, with :asc or :desc.`)
  }
  return { by, order }
}

function readLimit(written: string | undefined): number {
  if (written === undefined) return Number.POSITIVE_INFINITY
  if (/^[1-9]\d{0,8}$/.test(written)) return Number(written)
  throw new WrongCall('--limit is a whole number from 1.')
}

/** The owner is shown only if there are several. */
function showRecords(records: readonly KeyRecord[]): string {
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

function toJson(value: object): string {
  return JSON.stringify(value, null, 2)
}

function isWrongCall(error: unknown): error is Error {
  const code = (error as NodeJS.ErrnoException | undefined)?.code ?? ''
  return error instanceof WrongCall || code.startsWith('ERR_PARSE_ARGS_')
}
