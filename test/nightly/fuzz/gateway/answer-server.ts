/**
 * Model servers that respond with the bytes of the answer with the number in `x-answer`. The second refuses to be asked for
 * usage, and its ModelRefs say so.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import { drawAnswer, plainAnswer } from './answer.ts'
import { readHeader } from './lane.ts'
import type { Variant } from './servers.ts'

export async function startAnswerServers(t: Test): Promise<readonly Variant[]> {
  return [
    { ...(await start(t, true)), name: 'answers' },
    { ...(await start(t, false)), name: 'unasked', output: { streamUsage: 'unasked' } },
  ]
}

async function start(t: Test, takesOptions: boolean): Promise<Pick<Variant, 'port' | 'read'>> {
  const server = createServer(async (request, response) => {
    const asked = (await json(request)) as object
    if (!takesOptions && 'stream_options' in asked) return void response.writeHead(400).end()
    const number = request.headers['x-answer']
    const { parts } = number === undefined ? plainAnswer() : drawAnswer(Number(number))
    const { socket } = request
    for (const part of parts) {
      socket.write(part)
      // Sends each part as a separate packet.
      await turn()
    }
    socket.end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port, read: readHeader }
}
