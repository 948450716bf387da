import { once } from 'node:events'
import { createServer } from 'node:net'
import { StartError } from '../src/runtime/start-error.ts'

/** An address to listen on, and its setting. */
export interface Listen {
  readonly setting: string
  readonly host: string
  readonly port: number
}

/** Throws a StartError that names every address that is in use or invalid, with its setting. */
export async function checkPorts(addresses: readonly Listen[]): Promise<void> {
  const problems: string[] = []
  const seen = new Map<string, string>()
  for (const { setting, host, port } of addresses) {
    const address = `${host.includes(':') ? `[${host}]` : host}:${port}`
    // Any free port.
    const other = port === 0 ? undefined : seen.get(address)
    if (other !== undefined) problems.push(`${address} (${setting}) is also ${other}`)
    else {
      const problem = await whyNot(host, port)
      if (problem !== undefined) problems.push(`${address} (${setting}) ${problem}`)
    }
    seen.set(address, setting)
  }
  if (problems.length === 0) return
  throw new StartError(
    `${problems.join('\n')}\nFree ${problems.length === 1 ? 'that port' : 'those ports'}, or choose others by the settings in brackets.`,
  )
}

/** Why it is not possible to listen there, or undefined if it is. */
export async function whyNot(host: string, port: number): Promise<string | undefined> {
  const server = createServer()
  try {
    server.listen({ host, port, exclusive: true })
    await once(server, 'listening')
    server.close()
    await once(server, 'close')
    return undefined
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') return 'is already in use'
    if (code === 'EACCES') return 'needs more rights than this user has'
    if (code === 'EADDRNOTAVAIL') return 'is not an address of this machine'
    return `cannot be listened on (${message})`
  }
}
