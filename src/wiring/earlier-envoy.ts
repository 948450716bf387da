/** Reports an Envoy with the configuration of an earlier version, which calls services that no longer exist. */

import type { Logger } from 'pino'

const earlier: ReadonlySet<string> = new Set([
  '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs',
  '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
])

/** Call it with the method of each unknown call. A method is logged once, because Envoy repeats the call. */
export function createEarlierEnvoyLog(log: Pick<Logger, 'error'>): (method: string) => void {
  const told = new Set<string>()
  return (method) => {
    if (!earlier.has(method) || told.has(method)) return
    told.add(method)
    log.error(
      { code: 'envoy_config_outdated', method },
      'reports from Envoy are not counted, because its configuration is from an earlier version: regenerate it (tollgate envoy-config) and restart Envoy',
    )
  }
}
