import { once } from 'node:events'
import { createServer, type Server } from 'node:net'

/**
 * Below the range that Linux and macOS use for outgoing connections, which may take a port at any
 * time.
 */
const [lowest, highest] = [10_000, 32_000]

/** Finds `count` free ports on 127.0.0.1, holding all at once so that they differ. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = new Map<number, Server>()
  while (servers.size < count) {
    const port = lowest + Math.floor(Math.random() * (highest - lowest))
    const server = createServer()
    try {
      if (servers.has(port)) continue
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
