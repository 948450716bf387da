/**
 * The same text, as the engine keeps names of properties: once. Maps and sets compare such texts by address, and others
 * byte by byte, a slice of a longer one outside of compiled code.
 */
export function intern(text: string): string {
  return Object.keys({ [text]: true })[0] as string
}
