/** A model server that responds with the bytes of the answer with the number in `x-answer`. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import { drawAnswer, plainAnswer } from './answer.ts'
import { readHeader } from './lane.ts'
import type { Variant } from './servers.ts'

export async function startAnswerServer(t: Test): Promise<Variant> {
  const server = createServer(async (request) => {
    request.resume()
    await once(request, 'end')
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
  return { name: 'answers', port: (server.address() as AddressInfo).port, read: readHeader }
}
