import { once } from 'node:events'
import { createServer, type Server } from 'node:net'

/** Finds `count` different free ports on 127.0.0.1, held all at once so that none comes twice. */
export async function freePorts(count: number): Promise<number[]> {
  const servers: Server[] = []
  for (let i = 0; i < count; i += 1) servers.push(createServer().listen(0, '127.0.0.1'))
  return Promise.all(
    servers.map(async (server) => {
      if (!server.listening) await once(server, 'listening')
      const address = server.address()
      return typeof address === 'object' && address !== null ? address.port : 0
    }),
  ).finally(async () => {
    await Promise.all(servers.map((server) => new Promise((closed) => server.close(closed))))
  })
}
