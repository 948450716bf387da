import { once } from 'node:events'
import { closeSync, mkdirSync, openSync, statSync, utimesSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Below the range that Linux and macOS use for outgoing connections, which may take a port at any
 * time.
 */
const [lowest, highest] = [10_000, 32_000]

/**
 * Finds `count` free ports on 127.0.0.1, holding all at once so that they differ. Each is claimed for an hour: between
 * its choice and its use, and while its process restarts, no other test may get it.
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

/** Claims the port by a file, which all processes of a run see. */
function claim(port: number): boolean {
  const folder = join(tmpdir(), 'tollgate-test-ports')
  mkdirSync(folder, { recursive: true, mode: 0o777 })
  const path = join(folder, String(port))
  try {
    closeSync(openSync(path, 'wx'))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    if (Date.now() - statSync(path).mtimeMs < claimMs) return false
    utimesSync(path, new Date(), new Date())
    return true
  }
}

const claimMs = 3_600_000
