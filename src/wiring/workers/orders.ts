/** What a worker gets from its parent at its start, besides the settings, which it reads itself. */

import type { Config } from '../../config.ts'
import type { Address } from '../../settings/address.ts'

export interface Orders {
  /** From 0. */
  readonly index: number
  /** Where it serves the gateway. */
  readonly address: Address
  /** The database, if the parent has started it. */
  readonly databaseUrl: string | undefined
  readonly logLevel: string
  readonly replicaName: string
  readonly replicaPlace: string
}

/** For the worker at this index; each is a separate replica for revocations. */
export function ordersFor(
  config: Config,
  own: Pick<Orders, 'index' | 'address' | 'databaseUrl' | 'logLevel'>,
): Orders {
  const name = `worker-${own.index}`
  return {
    ...own,
    replicaName: `${config.replicaName}/${name}`,
    replicaPlace: `${config.replicaPlace}/${name}`,
  }
}

/** The settings of a worker. Turns off what the parent does for all, and divides shared limits. */
export function configFor(config: Config, orders: Orders): Config {
  const { databaseUrl, replicaName, replicaPlace, address } = orders
  const metrics = undefined
  return Object.freeze({
    ...config,
    ...{ replicaName, replicaPlace },
    grpcAddresses: [address],
    ...(databaseUrl !== undefined && { databaseUrl, databaseUrlNow: () => databaseUrl }),
    refusalLinesPerSecond: Math.ceil(config.refusalLinesPerSecond / config.workers),
    auditLog: undefined,
    auditRequired: false,
    otel: config.otel?.traces === undefined ? undefined : { ...config.otel, metrics },
  })
}

/** DB_MAX_OPEN_CONNS is shared by all processes, and each needs at least two. */
export function connectionsOfEach({ databaseConnections, workers }: Config): number {
  if (workers === 1) return databaseConnections
  return Math.max(2, Math.floor(databaseConnections / (workers + 1)))
}
