/** Envoy's response flags by their short names, as in its text logs. */

/** Field numbers of envoy.data.accesslog.v3.ResponseFlags, in their order from 1. */
const names = [
  ...['LH', 'UH', 'UT', 'LR', 'UR', 'UF', 'UC', 'UO', 'NR', 'DI', 'FI', 'RL', 'UAEX', 'RLSE'],
  ...['DC', 'URX', 'SI', 'IH', 'DPE', 'UMSDR', 'RFCF', 'NFCF', 'DT', 'UPE', 'NC', 'OM', 'DF', 'DR'],
]
const numbers: ReadonlyMap<string, number> = new Map(names.map((name, i) => [name, i + 1]))

/** Whether the client disconnected, for which Envoy has two flags. */
export function sayLeft(text: string): boolean {
  return /\bD[CR]\b/.test(text)
}

const none: ReadonlySet<number> = new Set()

/** The field numbers of flags written as `UF,URX`; 0 for an unknown one. */
export function flagNumbers(text: string): ReadonlySet<number> {
  if (text === '') return none
  return new Set(text.split(',').map((name) => numbers.get(name) ?? 0))
}
