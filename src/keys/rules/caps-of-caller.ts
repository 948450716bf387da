/** What the caps of a caller's key leave open. */

import { isWithinAny } from '../../formats/cidr.ts'
import type { Caller, CompiledCaps } from '../../identity/rules/caller.ts'

/** The caller's caps; undefined for a token, and for a key without any. */
export function capsOf(caller: Caller): CompiledCaps | undefined {
  return caller.by === 'key' ? caller.caps : undefined
}

/** What a key without caps sees and revokes: all keys of its owner, or itself. */
export type KeyReach = 'owner' | 'self'

/** The only key that the caller sees and revokes; undefined: all that its user has. */
export function onlyKeyOf(caller: Caller, reach: KeyReach): string | undefined {
  if (caller.by === 'token') return undefined
  return caller.caps !== undefined || reach === 'self' ? caller.keyId : undefined
}

/** Whether the caller may come from this address; undefined: it has none. False only for a key with networks. */
export function isAddressAllowed(caller: Caller, address: string | undefined): boolean {
  const networks = capsOf(caller)?.networks
  return networks === undefined || (address !== undefined && isWithinAny(networks, address))
}

/** Whether the caller may call the model, as far as the models of its key say. */
export function isModelAllowed(caller: Caller, modelKey: string): boolean {
  return capsOf(caller)?.models?.has(modelKey) !== false
}
