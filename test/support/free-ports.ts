import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'

/**
 * Below the range that Linux and macOS use for outgoing connections, which may take a port at any
 * time.
 */
const [lowest, highest] = [10_000, 32_000]

/**
 * Finds `count` free ports on 127.0.0.1, holding all at once so that they differ. During a run of tests no other
 * caller gets them: neither before their use, nor while their process restarts.
 */
export async function freePorts(count: number): Promise<number[]> {
  const servers = new Map<number, Server>()
  while (servers.size < count) {
    const port = lowest + Math.floor(Math.random() * (highest - lowest))
    const server = createServer()
    try {
      if (!claim(port)) continue
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
      servers.set(port, server)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    }
  }
  await Promise.all(
    [...servers.values()].map((server) => new Promise((closed) => server.close(closed))),
  )
  return [...servers.keys()]
}

/** Claims the port by a file in the folder that all processes of a run share. */
function claim(port: number): boolean {
  const { CLAIMED_PORTS } = process.env
  if (!CLAIMED_PORTS) return true
  try {
    closeSync(openSync(join(CLAIMED_PORTS, String(port)), 'wx'))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  }
}
