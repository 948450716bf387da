/**
 * Static identity tokens in kube-apiserver's format (`--token-auth-file`): lines of
 * `token,user,uid,"group1,group2"`, the last column optional. Reloaded when the file changes.
 */

import { intern } from '../formats/memoize.ts'
import { followFile } from './followed-file.ts'
import type { TokenCaller } from './rules/caller.ts'
import { hashOfToken } from './verdict-cache.ts'

/** Characters that a bearer credential in a header may have. */
const sendable = /^[!-+\--~]+$/

/** The content of a token file. Tokens are stored as hashes, so that a look-up leaks no timing. */
interface TokenTable {
  readonly callers: ReadonlyMap<string, TokenCaller>
  /** `line 3: …`, one for each line that was skipped, or of which a part was. */
  readonly problems: readonly string[]
}

/** The caller with this identity token, or null if it is not valid. */
export type FindTokenCaller = (token: string) => TokenCaller | null

/** Reads the file and follows its changes. Throws if it cannot be read at the start. */
export function openTokenFile(path: string, onProblem: (message: string) => void) {
  let callers: TokenTable['callers'] = new Map()
  const file = followFile(
    path,
    (text) => {
      const read = parseTokenFile(text)
      callers = read.callers
      for (const problem of read.problems) onProblem(`${path}, ${problem}`)
      if (callers.size === 0) onProblem(`${path} has no tokens: no identity token is valid by it`)
    },
    () => onProblem(`${path} cannot be read; the tokens read before stay in force`),
  )
  const verify: FindTokenCaller = (token) => callers.get(hashOfToken(token)) ?? null
  return { verify, close: file.close }
}

/** No token file: no identity token is valid. */
export const noTokenFile: FindTokenCaller = () => null

/** Parses the whole file; an invalid line is skipped and reported. */
export function parseTokenFile(text: string): TokenTable {
  const callers = new Map<string, TokenCaller>()
  const problems: string[] = []
  // Spreadsheets write a byte-order mark before the first line.
  for (const [index, line] of text
    .replace(/^\ufeff/, '')
    .split(/\r?\n/)
    .entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    const problem = addLine(line, callers)
    if (problem !== undefined) problems.push(`line ${index + 1}: ${problem}`)
  }
  return { callers, problems }
}

function addLine(line: string, callers: Map<string, TokenCaller>): string | undefined {
  const columns = splitColumns(line)
  if (columns === undefined) return 'quotes have to enclose a whole column'
  const [token, user, uid, listed = '', ...others] = columns.map((column) => column.trim())
  if (!token || !user || uid === undefined) return 'needs token, user and uid'
  const groups = listed
    .split(',')
    .map((group) => group.trim())
    .filter((group) => group !== '')
  // The database cannot store it.
  if ([user, ...groups].some((name) => name.includes('\0'))) {
    return 'a name must not have a NUL character'
  }
  if (line.includes('\ufffd')) return 'is not UTF-8: save the file in that encoding'
  if (token.startsWith('sk-')) return 'a token that begins with sk- would be taken for an API key'
  if (!sendable.test(token)) return 'a token has to be visible ASCII without blanks and commas'
  const key = hashOfToken(token)
  if (callers.has(key)) return 'this token is already in an earlier line'
  // Interned: a slice would retain the text of the file, with all tokens, in each cache that has the name.
  const names = { user: intern(user), groups: groups.map(intern) }
  callers.set(key, { by: 'token', proof: { by: 'file' }, ...names })
  // Further columns are valid, as for kube-apiserver; without a quote they are rather groups.
  return others.some((column) => column !== '') && !line.includes('"')
    ? 'only the first group counts: several groups need quotes around all of them'
    : undefined
}

/** Columns of a CSV line (RFC 4180, without line breaks in quotes), or undefined if a quote is misplaced. */
function splitColumns(line: string): readonly string[] | undefined {
  const column = /(?:"((?:[^"]|"")*)"\s*|([^",]*))(,|$)/y
  const columns: string[] = []
  for (;;) {
    const match = column.exec(line)
    if (match === null) return undefined
    const [, quoted, plain = '', end] = match
    columns.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'))
    if (end === '') return columns
  }
}
