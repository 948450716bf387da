/** Questions about the caps of a caller's key. */

import { isInAnyNetwork } from '../../formats/cidr.ts'
import type { Caller, CompiledCaps } from '../../identity/rules/caller.ts'

/** The caller's caps; undefined for a token, and for a key without any. */
export function capsOf(caller: Caller): CompiledCaps | undefined {
  return caller.by === 'key' ? caller.caps : undefined
}

/** The keys that a key without caps can list and revoke: all of its owner, or itself. */
export type KeyReach = 'owner' | 'self'

/** The only key that the caller can list and revoke, or undefined for all keys of its user. */
export function onlyKeyOf(caller: Caller, reach: KeyReach): string | undefined {
  if (caller.by === 'token') return undefined
  return caller.caps !== undefined || reach === 'self' ? caller.keyId : undefined
}

/** Whether the caller may use this address, or an unknown one if undefined. False only for a key with networks. */
export function isAddressAllowed(caller: Caller, address: string | undefined): boolean {
  const networks = capsOf(caller)?.networks
  return networks === undefined || (address !== undefined && isInAnyNetwork(networks, address))
}

/** Whether the models of the caller's key, if it names any, include this one. */
export function isModelAllowed(caller: Caller, modelKey: string): boolean {
  return capsOf(caller)?.models?.has(modelKey) !== false
}
