/** `tollgate key new|list|show|edit|rotate|revoke`: API keys from a terminal. */

import { parseArgs } from 'node:util'
import { errorMessage } from '../runtime/error-message.ts'
import { apiServerFlags } from './api-server.ts'
import { texts } from './flags.ts'
import { clientOf, type KeyIo, toJson, warnOfPending } from './key-call.ts'
import { dropFlags, keyFlags, readFields, showKey, WrongCall } from './key-fields.ts'
import { listKeys } from './list-keys.ts'
import { revokeKeys } from './revoke-keys.ts'
import { printable } from './table.ts'
import { terminal } from './terminal.ts'
import { asksForHelp } from './usage.ts'

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

const forNew = {
  ...apiServerFlags,
  ...texts('subscription', 'expires'),
  ephemeral: { type: 'boolean' },
  ...keyFlags,
} as const
const forEdit = { ...apiServerFlags, ...texts('name'), ...keyFlags, ...dropFlags }
const forRotate = { ...apiServerFlags, ...texts('overlap', 'end-old-after-first-use') }

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
  const { values, positionals } = parseArgs({
    args,
    options: apiServerFlags,
    allowPositionals: true,
  })
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

function isWrongCall(error: unknown): error is Error {
  const code = (error as NodeJS.ErrnoException | undefined)?.code ?? ''
  return error instanceof WrongCall || code.startsWith('ERR_PARSE_ARGS_')
}
