/** The whole product, and what one exchange costs it in CPU. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import { cpuMicrosOf } from '../../../../bench/gateway/process-costs.ts'
import { accessPolicy, modelRef, subscription } from '../../../support/documents.ts'
import { startGateway } from '../../../support/gateway.ts'
import type { Exchange, Order, Report, Served } from './far-side.ts'

export interface Cost {
  /** Microseconds of one exchange, of Envoy and the service together. */
  readonly micros: number
  readonly status: number
}

export interface World {
  readonly key: string
  readonly keyId: string
  /** An identity token, for the API. */
  readonly token: string
  /**
   * Measures up to `count` exchanges, the given ones in turn; fewer if they take more than half a
   * second.
   */
  measure(exchanges: Exchange | readonly Exchange[], count: number): Promise<Cost>
}

/** Long enough for clocks that advance by a hundredth of a second. */
const withinMs = 500

export async function startWorld(t: Test): Promise<World> {
  const far = fork(new URL('./far-side.ts', import.meta.url), { serialization: 'advanced' })
  t.teardown(() => void far.kill())
  const received = async <Kind extends Report>() => (await once(far, 'message'))[0] as Kind
  const { url } = await received<{ readonly url: string }>()
  const team = { groups: ['team'] }
  const gateway = await startGateway(t, {
    resources: () => [
      modelRef('sim', { backendUrl: url }),
      accessPolicy('open', ['llm/sim'], team),
      subscription('plenty', team, { 'llm/sim': [[1_000_000_000, '1h']] }),
    ],
    env: { METER_PATHS: 'chat,messages,completions,responses,embeddings' },
  })
  const order = async <Kind extends Report>(order: Order): Promise<Kind> => {
    const answer = received<Kind>()
    far.send(order)
    return answer
  }
  const user = gateway.newUser()
  const { key, id: keyId } = await gateway.mint({ user })
  const used = () => {
    // The service is this process.
    const { user, system } = process.cpuUsage()
    return user + system + cpuMicrosOf(gateway.envoy.pid)
  }
  return {
    key,
    keyId,
    token: `token-${user}`,
    async measure(given, count) {
      const exchanges = 'request' in given ? [given] : given
      await order({ port: gateway.port, exchanges })
      const before = used()
      const { count: served, status } = await order<Served>({ count, withinMs })
      return { micros: (used() - before) / served, status }
    },
  }
}
