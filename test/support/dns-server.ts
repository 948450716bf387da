import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Test } from 'tap'

/** The address of a name; undefined: the name does not exist. */
export type Zone = (name: string) => string | undefined

const typeA = 1
const noSuchName = 3

/**
 * Starts a server that answers only for IPv4 addresses (RFC 1035); it ends with `t`. Returns its
 * port.
 */
export async function startDnsServer(t: Test, zone: Zone): Promise<number> {
  const socket = createSocket('udp4', (query, { port, address }) => {
    socket.send(toAnswer(query, zone), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  t.teardown(() => void socket.close())
  return socket.address().port
}

function toAnswer(query: Buffer, zone: Zone): Buffer {
  const labels: string[] = []
  let at = 12
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const type = query.readUInt16BE(at + 1)
  const question = query.subarray(12, at + 5)
  const address = zone(labels.join('.').toLowerCase())
  const has = address !== undefined && type === typeA
  const head = Buffer.alloc(12)
  head.writeUInt16BE(query.readUInt16BE(0), 0)
  // An authoritative answer, with recursion available.
  head.writeUInt16BE(0x8580 | (address === undefined ? noSuchName : 0), 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(has ? 1 : 0, 6)
  if (!has) return Buffer.concat([head, question])
  const record = Buffer.from([0xc0, 0x0c, 0, typeA, 0, 1, 0, 0, 0, 5, 0, 4])
  return Buffer.concat([head, question, record, Buffer.from(address.split('.').map(Number))])
}
