/** Flags of a command, for parseArgs. */

/** Each with a text. */
export function texts<const Name extends string>(...names: readonly Name[]) {
  return all(names, { type: 'string' } as const)
}

/** Each without a value; false where it is left out. */
export function switches<const Name extends string>(...names: readonly Name[]) {
  return all(names, { type: 'boolean', default: false } as const)
}

function all<Name extends string, Flag>(names: readonly Name[], flag: Flag) {
  return Object.fromEntries(names.map((name) => [name, flag])) as Record<Name, Flag>
}
