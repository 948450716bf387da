/**
 * The output of --json. Characters that would act on a terminal or reverse its text are escaped, of which JSON itself
 * escapes only some; a parser restores them.
 */
export function toJson(value: object): string {
  return JSON.stringify(value, null, 2).replace(/[\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}]/gu, escaped)
}

/** By its UTF-16 code units. */
function escaped(character: string): string {
  return Array.from(
    { length: character.length },
    (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`,
  ).join('')
}
