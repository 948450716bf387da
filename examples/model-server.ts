/**
 * The sample model server as a program:
 *
 *     node examples/model-server.ts [[host:]port] [--models name,name]
 *
 * or by environment, MODEL_SERVER_ADDRESS (default 127.0.0.1:8090; port 0 takes a free one) and
 * MODEL_SERVER_MODELS. Prints one line once it listens. SIGTERM, SIGINT, and the end of a parent
 * that started it with an IPC channel stop it. What it can be asked for: model-server/README.md.
 */

import { parseArgs } from 'node:util'
import { createModelServer, DEFAULT_MODELS } from './model-server/server.ts'

const DEFAULT_ADDRESS = '127.0.0.1:8090'
const GRACE_MS = 2_000

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { models: { type: 'string' } },
})
const address = positionals[0] ?? process.env.MODEL_SERVER_ADDRESS ?? DEFAULT_ADDRESS
const { host, port } = readAddress(address)
const listed = values.models ?? process.env.MODEL_SERVER_MODELS
const models = listed === undefined ? DEFAULT_MODELS : listed.split(',').map((id) => id.trim())
const server = createModelServer({ models })

server.once('error', (error: NodeJS.ErrnoException) => {
  const taken = `port ${port} of ${host} is already in use`
  fail(error.code === 'EADDRINUSE' ? taken : error.message)
})
server.listen(port, host, () => {
  const bound = server.address()
  const actual = typeof bound === 'object' && bound !== null ? bound.port : port
  const origin = `http://${host.includes(':') ? `[${host}]` : host}:${actual}`
  console.log(`model server listening on ${origin} (${models.join(', ')})`)
})
for (const event of ['SIGTERM', 'SIGINT', 'disconnect']) process.once(event, stop)

function readAddress(text: string): { host: string; port: number } {
  const [, host = '127.0.0.1', digits] = /^(?:(.+):)?(\d{1,5})$/.exec(text) ?? []
  const port = Number(digits)
  if (!(port <= 65_535)) fail(`${JSON.stringify(text)} is no address of the form host:port`)
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port }
}

/** Lets running answers end, but not for long: a hanging one must not hold up the stop. */
function stop(): void {
  // An open channel to the parent would keep this process alive.
  if (process.connected) process.disconnect()
  server.close()
  server.closeIdleConnections()
  setTimeout(() => server.closeAllConnections(), GRACE_MS).unref()
}

function fail(message: string): never {
  console.error(`model server: ${message}`)
  process.exit(1)
}
