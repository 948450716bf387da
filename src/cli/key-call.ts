/** What the commands of `tollgate key` share. */

import { type ApiServerFlags, findApiServer, takeApiServer } from './api-server.ts'
import { createKeyClient, type KeyClient, type Revoked } from './key-client.ts'
import { printable } from './table.ts'
import type { CommandIo } from './terminal.ts'

export type KeyIo = Omit<CommandIo, 'input'>

/** The key endpoints of the server that the flags or the environment name. */
export function clientOf(values: ApiServerFlags, io: KeyIo): KeyClient {
  return createKeyClient(findApiServer(io.env, takeApiServer(values).server))
}

/** A revocation is in force, but some serving process has not acknowledged it. */
export function warnOfPending({ propagation }: Revoked, io: KeyIo): void {
  if (propagation?.state !== 'pending') return
  const names = printable(propagation.waitingFor?.join(', ') || 'some replica')
  io.err(`Not confirmed by ${names}: it may still let revoked keys pass for a while.`)
}

/** What --json prints. */
export function toJson(value: object): string {
  return JSON.stringify(value, null, 2)
}
