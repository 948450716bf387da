/** `tollgate key new|show|edit|rotate`: an API key from a terminal. */

import type { ApiKeyResponse } from '../admin/keys/api-key-record.ts'
import type { CreatedApiKey } from '../admin/keys/create-api-key.ts'
import type { RotatedApiKey } from '../admin/keys/rotate-api-key.ts'
import { connectApi } from './api-client.ts'
import { type Run, WrongCall } from './command.ts'
import type { gatewayFlags } from './commands/flags.ts'
import type { editKeyFlags, newKeyFlags, rotateKeyFlags } from './commands/keys.ts'
import { type ChangedKey, keyPath, keysPath, warnOfPending } from './key-client.ts'
import { showKey, toKeyFields } from './key-flags.ts'
import { formatJson, printable } from './output.ts'

/** `tollgate key new`: returns the exit status, as the others. */
export const newKey: Run<typeof newKeyFlags> = async ({ operands: [name], flags }, io) => {
  if (!name && !flags.ephemeral) throw new WrongCall('Give the key a name.')
  const fields = {
    name,
    subscription: flags.subscription,
    expiresIn: durationOf('--expires', flags.expires),
    ephemeral: flags.ephemeral,
    ...toKeyFields(flags),
  }
  const ask = connectApi(io, flags)
  const created = (await ask('POST', keysPath, fields, 'once')) as CreatedApiKey
  io.out(flags.json ? formatJson(created) : printable(created.key))
  io.err(
    printable(
      `Made the key "${created.name}" (${created.id}) for ${created.subscription}, ` +
        `good until ${created.expiresAt}. This is the only time that it is shown.`,
    ),
  )
  return 0
}

/** The API would ask for a number of seconds, which a flag cannot be: whoever writes 24 may mean hours. */
function durationOf(flag: string, written: string | undefined): string | undefined {
  if (written !== undefined && /^[1-9]\d*$/.test(written)) {
    throw new WrongCall(`${flag} needs a unit, as in 30d, 12h, 2h30m or ${written}s.`)
  }
  return written
}

/** `tollgate key show`. */
export const readKey: Run<typeof gatewayFlags> = async ({ operands: [id = ''], flags }, io) => {
  const record = (await connectApi(io, flags)('GET', keyPath(id))) as ApiKeyResponse
  io.out(flags.json ? formatJson(record) : showKey(record))
  return 0
}

/** `tollgate key edit`. */
export const editKey: Run<typeof editKeyFlags> = async ({ operands: [id = ''], flags }, io) => {
  const { name } = flags
  const fields = { ...(name !== undefined && { name }), ...toKeyFields(flags) }
  if (Object.keys(fields).length === 0)
    throw new WrongCall('Give at least one flag that changes the key.')
  const record = (await connectApi(io, flags)('PATCH', keyPath(id), fields)) as ChangedKey
  io.out(flags.json ? formatJson(record) : showKey(record))
  warnOfPending(record, io, 'the previous version of the key may still apply there')
  return 0
}

/** `tollgate key rotate`. */
export const rotateKey: Run<typeof rotateKeyFlags> = async ({ operands: [id = ''], flags }, io) => {
  const times = {
    overlap: durationOf('--overlap', flags.overlap),
    endOldAfterFirstUse: durationOf('--end-old-after-first-use', flags['end-old-after-first-use']),
  }
  const ask = connectApi(io, flags)
  const rotated = (await ask('POST', `${keyPath(id)}/rotate`, times, 'once')) as RotatedApiKey
  io.out(flags.json ? formatJson(rotated) : printable(rotated.key))
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
