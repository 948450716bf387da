/** `tollgate login` and `tollgate logout`: a credential that is saved for one address. */

import { createApiClient } from './api-client.ts'
import { checkToken, checkUrl, urlOf } from './api-target.ts'
import type { Run } from './command.ts'
import type { jsonFlag } from './commands/flags.ts'
import type { loginFlags } from './commands/shell.ts'
import { loginFile, readLogins, removeLogins, writeLogins } from './login-file.ts'
import { formatJson, printable } from './output.ts'

/** Saves the credential on standard input if the gateway accepts it; returns the exit status. */
export const login: Run<typeof loginFlags> = async ({ operands: [raw], flags }, io) => {
  const { env } = io
  const url = checkUrl(raw ?? urlOf(env), flags['insecure-http'])
  const token = checkToken((await io.read('Identity token or API key')).trim())
  const me = (await createApiClient({ url, token })('GET', '/v1/me')) as {
    readonly username: string
    readonly credential: string
  }
  const { tokens } = readLogins(env)
  await writeLogins(env, { current: url, tokens: new Map([...tokens, [url, token]]) })
  const file = loginFile(env)
  const user = printable(me.username)
  io.out(
    flags.json
      ? formatJson({ url, username: me.username, credential: me.credential, file })
      : `${url} is now the default gateway, as ${user}. The credential is saved in ${file}.`,
  )
  return 0
}

/** Removes the saved credential; returns the exit status: 1 if there was none for the address. */
export const logout: Run<typeof jsonFlag> = async ({ operands: [raw], flags }, io) => {
  if (raw === undefined) {
    removeLogins(io.env)
    io.out(flags.json ? formatJson({ forgotten: 'all' }) : 'Removed all saved credentials.')
    return 0
  }
  const url = checkUrl(raw, true)
  const { current, tokens } = readLogins(io.env)
  if (!tokens.has(url)) throw new Error(`No credential is saved for ${url}.`)
  const left = [...tokens].filter(([each]) => each !== url)
  await writeLogins(io.env, {
    current: current === url ? undefined : current,
    tokens: new Map(left),
  })
  io.out(flags.json ? formatJson({ forgotten: url }) : `Removed the saved credential for ${url}.`)
  return 0
}
