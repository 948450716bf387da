/** Envoy's response flags by their short names, as they are in its logs in text. */

/** Field numbers of envoy.data.accesslog.v3.ResponseFlags, in their order from 1. */
const names = [
  ...['LH', 'UH', 'UT', 'LR', 'UR', 'UF', 'UC', 'UO', 'NR', 'DI', 'FI', 'RL', 'UAEX', 'RLSE'],
  ...['DC', 'URX', 'SI', 'IH', 'DPE', 'UMSDR', 'RFCF', 'NFCF', 'DT', 'UPE', 'NC', 'OM', 'DF', 'DR'],
]
const numbers: ReadonlyMap<string, number> = new Map(names.map((name, i) => [name, i + 1]))

/** Whether they say that the client left, which Envoy does in two ways. */
export function sayLeft(text: string): boolean {
  return /\bD[CR]\b/.test(text)
}

const none: ReadonlySet<number> = new Set()

/** The field numbers of flags as `UF,URX`; of one that is not known, 0. */
export function flagNumbers(text: string): ReadonlySet<number> {
  if (text === '') return none
  return new Set(text.split(',').map((name) => numbers.get(name) ?? 0))
}
