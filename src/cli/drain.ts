/** `tollgate drain`: runs before Envoy is stopped, as the preStop hook of its container. */

import { withRecordedAddresses } from '../../dev/own-addresses.ts'
import type { DrainState } from '../cluster/rules/gateway-drain.ts'
import { drainEnvoy } from '../gateway/drain.ts'
import { type Config, formatAddress, loadConfig } from '../settings/config.ts'
import { type Run, Unreachable } from './command.ts'
import type { jsonFlag } from './commands/flags.ts'
import { formatJson } from './output.ts'
import { requestOwnListener } from './own-listener.ts'

/** Only these: a container's other settings may name files that it lacks. */
const names = [
  'INTERNAL_ADDRESS',
  'ENVOY_ADMIN_ADDRESS',
  'DATA_DIR',
  'DRAIN_SECONDS',
  'DRAIN_MIN_SECONDS',
  'TLS_CERT_FILE',
  'TLS_KEY_FILE',
] as const

/** Time beyond DRAIN_SECONDS for the last response. */
const marginMs = 10_000

/** The exit status for the state in which the drain ended. */
const statusOf = { drained: 0, draining: 1, overdue: 1, unreachable: 3 } as const

/** Runs the command and returns its exit status. */
export const drain: Run<typeof jsonFlag> = async ({ flags }, { env, out: print, err }) => {
  // Progress is not part of the JSON.
  const out = flags.json ? err : print
  const settings = withRecordedAddresses(env)
  const all = names.flatMap((name) => [name, `${name}_FILE`])
  const config = loadConfig(Object.fromEntries(all.map((name) => [name, settings[name]])))
  const begunAt = performance.now()
  const seconds = (): string => `${((performance.now() - begunAt) / 1_000).toFixed(1)} s`
  try {
    const { status, requests = 0 } = await askService(config, out).catch((error: Error) => {
      out(`The service does not respond (${error.message}); draining Envoy directly.`)
      return askEnvoy(config, performance.now() - begunAt)
    })
    if (status === 'drained') out(`No request is running, after ${seconds()}.`)
    else if (status === 'unreachable')
      out('Envoy does not respond, so the command did not wait for requests.')
    else out(`${requests} requests are still running after ${seconds()}.`)
    if (flags.json) print(formatJson({ status, requests }))
    return statusOf[status]
  } catch (error) {
    const { envoyAdminAddress: admin } = config
    throw new Unreachable(`ENVOY_ADMIN_ADDRESS: ${formatAddress(admin)} does not respond`, {
      cause: error,
    })
  }
}

/** Calls until the drain has ended. Rejects as soon as the service does not respond. */
async function askService(config: Config, out: (text: string) => void): Promise<DrainState> {
  const begunAt = performance.now()
  for (let printed = ''; ; ) {
    const state = await askOnce(config)
    const isLate = performance.now() - begunAt > config.drainMs + marginMs
    if (state.status !== 'draining') return state
    if (isLate) return { ...state, status: 'overdue' }
    const { requests } = state
    if (requests !== undefined && printed !== `${requests}`) out(`Requests that run: ${requests}`)
    printed = `${requests}`
  }
}

async function askOnce({ internalAddress, tlsCertFile }: Config): Promise<DrainState> {
  const options = { isSecure: tlsCertFile !== undefined, method: 'POST' }
  const { status, body } = await requestOwnListener(internalAddress, '/internal/v1/drain', options)
  if (status !== 200) throw new Error(`status ${status}`)
  return JSON.parse(body) as DrainState
}

/** Drains Envoy without the service, in the remaining time. */
async function askEnvoy(config: Config, goneMs: number): Promise<DrainState> {
  const { requests } = await drainEnvoy({
    admin: config.envoyAdminAddress,
    minMs: Math.max(0, config.drainMinMs - goneMs),
    maxMs: Math.max(0, config.drainMs - goneMs),
  })
  return { status: requests === 0 ? 'drained' : 'overdue', requests }
}
