/** Fields of responses and of the audit trail that are absent if they are empty. */

type Filled<Fields> = { readonly [Name in keyof Fields]?: NonNullable<Fields[Name]> }

/** The fields that are neither undefined, nor null, nor an empty text. */
export function withoutEmpty<Fields extends object>(fields: Fields): Filled<Fields> {
  const filled = Object.entries(fields).filter(([, value]) => (value ?? '') !== '')
  return Object.fromEntries(filled) as Filled<Fields>
}
