/** Which addresses models may have in this installation. */

import { addressOfUrl } from '../formats/address.ts'
import type { CheckAddress } from '../models/rules/refuse-addresses.ts'
import { settings } from '../settings/all-settings.ts'
import type { Config } from '../settings/config.ts'
import { createAddressRules } from './model-address.ts'

/** From the listeners of the settings; a port that is chosen at start is unknown. */
export function addressRulesOf(config: Config): CheckAddress {
  const all = [
    [settings.gatewayAddress, config.gatewayAddress],
    [settings.apiAddress, config.apiAddress],
    [settings.internalAddress, config.internalAddress],
    ...config.grpcAddresses.map((address) => [settings.grpcAddresses, address] as const),
    [settings.metricsAddress, config.metricsAddress],
    [settings.envoyAdminAddress, config.envoyAdminAddress],
    ...config.gatewayGrpcEndpoints.map((at) => [settings.gatewayGrpcEndpoints, at] as const),
    ...config.gatewayApiEndpoints.map((at) => [settings.gatewayApiEndpoints, at] as const),
    [settings.gatewayUrl, addressOfUrl(new URL(config.gatewayUrl))],
  ] as const
  return createAddressRules({
    listeners: all.flatMap(([{ name }, address]) =>
      address === undefined || 'path' in address ? [] : { setting: name, ...address },
    ),
    allowed: config.modelAddressesAllowed ?? [],
    opensLoopback: config.resourceFolder !== undefined,
  })
}
