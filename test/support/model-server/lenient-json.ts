/**
 * Reads JSON as leniently as model servers do. This is on purpose: a gateway that reads more
 * strictly must refuse what it cannot read, because this server would answer it.
 */

/**
 * Parses what `JSON.parse` accepts (of duplicate keys the last is used, lone surrogates and 1e999
 * are accepted, nesting is unlimited) and what Python's `json` accepts beyond it: the literals NaN,
 * Infinity and -Infinity. Throws SyntaxError for anything else.
 */
export function parseLenientJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const plain = replaceLiterals(text)
    if (plain === text) throw error
    return JSON.parse(plain)
  }
}

/**
 * Decodes a body as Python's `json.loads(bytes)` does: a byte order mark is dropped, and UTF-16 is
 * recognized with or without one by the positions of zero bytes in its first character.
 */
export function decodeText(bytes: Uint8Array): string {
  const [first, second] = bytes
  if (first === 0xff && second === 0xfe) return new TextDecoder('utf-16le').decode(bytes)
  if (first === 0xfe && second === 0xff) return new TextDecoder('utf-16be').decode(bytes)
  if (first === 0 && second !== 0) return new TextDecoder('utf-16be').decode(bytes)
  if (first !== 0 && second === 0) return new TextDecoder('utf-16le').decode(bytes)
  return new TextDecoder().decode(bytes)
}

/**
 * NaN becomes null, and Infinity a number too large for a double, which JSON.parse reads as
 * Infinity.
 */
function replaceLiterals(text: string): string {
  const literal = /"|NaN|Infinity/g
  let plain = ''
  let copied = 0
  for (let match = literal.exec(text); match !== null; match = literal.exec(text)) {
    if (match[0] === '"') {
      literal.lastIndex = endOfString(text, match.index)
      continue
    }
    plain += text.slice(copied, match.index) + (match[0] === 'NaN' ? 'null' : '1e999')
    copied = literal.lastIndex
  }
  return plain + text.slice(copied)
}

/** The index after the closing quote; a loop, because a regular expression overflows on megabytes. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === '"') return at + 1
  }
  return text.length
}
