import { type BindOptions, createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Test } from 'tap'

/** The address of a name; undefined if the name does not exist, null if the server does not respond. */
export type Zone = (name: string) => string | undefined | null

const typeA = 1
const noSuchName = 3

/**
 * Starts a server that answers only for IPv4 addresses (RFC 1035), by default on a free port of
 * 127.0.0.1; it ends with `t`. Returns its port.
 */
export async function startDnsServer(
  t: Test,
  zone: Zone,
  at: BindOptions = { address: '127.0.0.1' },
): Promise<number> {
  const socket = createSocket('udp4', (query, { port, address }) => {
    const answer = toResult(query, zone)
    if (answer !== undefined) socket.send(answer, port, address)
  })
  socket.bind(at)
  await once(socket, 'listening')
  t.teardown(() => void socket.close())
  return socket.address().port
}

function toResult(query: Buffer, zone: Zone): Buffer | undefined {
  const labels: string[] = []
  let at = 12
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const type = query.readUInt16BE(at + 1)
  const question = query.subarray(12, at + 5)
  const address = zone(labels.join('.').toLowerCase())
  if (address === null) return
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
