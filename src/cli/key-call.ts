/** What the commands of `tollgate key` share. */

import { findApiServer } from './api-server.ts'
import type { Call } from './command.ts'
import type { connection } from './commands/shared.ts'
import { createKeyClient, type KeyClient, type Revoked } from './key-client.ts'
import { printable } from './table.ts'
import type { CommandIo } from './terminal.ts'

export type KeyIo = Omit<CommandIo, 'input'>

/** The key endpoints of the server that the flags or the environment name. */
export function clientOf(
  flags: Call<typeof connection>['flags'],
  io: Pick<KeyIo, 'env'>,
): KeyClient {
  return createKeyClient(findApiServer(io.env, flags))
}

/** A revocation is in force, but some serving process has not acknowledged it. */
export function warnOfPending({ propagation }: Revoked, io: Pick<KeyIo, 'err'>): void {
  if (propagation?.state !== 'pending') return
  const names = printable(propagation.waitingFor?.join(', ') || 'some replica')
  io.err(`Not confirmed by ${names}: it may still let revoked keys pass for a while.`)
}
