import http2 from 'node:http2'
import { readStat } from '../support/envoy.ts'
import { chatPath, type Gateway, gatewayTests } from '../support/gateway.ts'

const test = gatewayTests()

/** Reads one of Envoy's statistics for the service's cluster. */
const counted = ({ envoy }: Gateway, name: string): Promise<number> =>
  readStat(envoy, `cluster.tollgate.${name}`)

/** Sends this many requests and cancels each before it can be answered. */
async function hangUp(gateway: Gateway, times: number): Promise<void> {
  const session = http2.connect(gateway.url)
  session.on('error', () => {})
  const closed = Array.from({ length: times }, () => {
    const stream = session.request({
      ':method': 'POST',
      ':path': chatPath,
      'content-type': 'application/json',
      authorization: 'Bearer tg_nobody',
    })
    stream.on('error', () => {})
    stream.end('{"model":"sim"}')
    setImmediate(() => stream.close(http2.constants.NGHTTP2_CANCEL))
    return new Promise((resolve) => stream.on('close', resolve))
  })
  await Promise.all(closed)
  session.destroy()
}

test('cancelled requests do not affect others', async (t, gateway) => {
  const { key } = await gateway.mint()
  await gateway.chat(key)
  let asking = true
  const statuses: number[] = []
  const asked = (async () => {
    while (asking) statuses.push((await gateway.chat(key)).status)
  })()
  const target = 5_000
  for (let round = 0; round < 100; round += 1) {
    await hangUp(gateway, 300)
    if ((await counted(gateway, 'upstream_rq_tx_reset')) >= target) break
  }
  asking = false
  await asked
  t.ok((await counted(gateway, 'upstream_rq_tx_reset')) >= target, 'enough Checks were reset')
  t.equal(await counted(gateway, 'upstream_cx_destroy_remote'), 0, 'their connections stay open')
  t.strictSame([...new Set(statuses)], [200])
})
