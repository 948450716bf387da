/** Labels of an API key: names and values that its holder chooses. */

export type Labels = Readonly<Record<string, string>>

const maxLabels = 50
const maxNameLength = 128
/** Maximum number of characters of a value. */
const maxLabelValueLength = 1_024

/** Like a Kubernetes label: an optional prefix and a slash, then a name. */
const namePattern =
  /^([0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?\/)?[0-9A-Za-z]([0-9A-Za-z._-]*[0-9A-Za-z])?$/

/** The problem of these labels, as the end of a sentence that begins with the field. */
export function problemOfLabels(labels: Labels): string | undefined {
  const entries = Object.entries(labels)
  if (entries.length > maxLabels) return `must have at most ${maxLabels} labels.`
  for (const [name, value] of entries) {
    const isNamed = name.length <= maxNameLength && namePattern.test(name)
    if (!isNamed) {
      return `must have names like "team" or "example.com/team", of at most ${maxNameLength} characters.`
    }
    if (value === '') return `"${name}" must not be empty.`
    if ([...value].length > maxLabelValueLength) {
      return `"${name}" must have at most ${maxLabelValueLength} characters.`
    }
    if (hasControlCharacters(value) || !value.isWellFormed()) {
      return `"${name}" must not hold control characters or lone surrogates.`
    }
  }
  return undefined
}

/** Whether a text has control characters of ASCII. */
export function hasControlCharacters(text: string): boolean {
  return [...text].some((character) => character < ' ' || character === '\x7f')
}
