/** A string, a punctuation mark, or a word or number in a text that is JSON. */
const token = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g
const maxLevels = 100

/**
 * Whether bytes are a JSON object that all parsers read alike: RFC 8259 in UTF-8 without a byte
 * order mark, no duplicate names, no lone surrogates, no number beyond a double, and at most 100
 * levels.
 */
export function isStrictObject(bytes: Buffer): boolean {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  } catch {
    return false
  }
  // The grammar is checked already; the byte after a string shows whether it is a name.
  const tokens = text.match(token) ?? []
  const levels: Set<string>[] = []
  return tokens.every((each, i) => {
    if (each === '{' || each === '[') return levels.push(new Set()) <= maxLevels
    if (each === '}' || each === ']') return levels.pop() !== undefined
    if (/^[-\d]/.test(each)) return Number.isFinite(Number(each))
    if (!each.startsWith('"')) return true
    const string: string = JSON.parse(each)
    if (!string.isWellFormed()) return false
    if (tokens[i + 1] !== ':') return true
    const names = levels.at(-1) as Set<string>
    return names.size < names.add(string).size
  })
}
