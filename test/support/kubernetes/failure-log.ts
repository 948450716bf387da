/** An additional log of Envoy's, only for soaks: its report of each failed response. */

const written = '/run/tollgate/envoy/bootstrap.json'
/** In a volume that Envoy's container may write to. */
const extended = '/run/tollgate/journal/bootstrap.json'

const failureLog = {
  name: 'failures',
  filter: {
    status_code_filter: {
      comparison: { op: 'GE', value: { default_value: 500, runtime_key: 'unused' } },
    },
  },
  typed_config: {
    '@type': 'type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog',
    log_format: {
      json_format: {
        id: '%REQ(X-REQUEST-ID)%',
        ms: '%DURATION%',
        flags: '%RESPONSE_FLAGS%',
        details: '%RESPONSE_CODE_DETAILS%',
        cluster: '%UPSTREAM_CLUSTER%',
        upstream: '%UPSTREAM_HOST%',
        failure: '%UPSTREAM_TRANSPORT_FAILURE_REASON%',
        attempts: '%UPSTREAM_REQUEST_ATTEMPT_COUNT%',
      },
    },
  },
}

const extend = `
const { readFileSync, writeFileSync } = require('node:fs')
const bootstrap = JSON.parse(readFileSync('${written}', 'utf8'))
const gateway = bootstrap.static_resources.listeners.find(({ name }) => name === 'gateway')
gateway.filter_chains[0].filters[0].typed_config.access_log.push(${JSON.stringify(failureLog)})
writeFileSync('${extended}', JSON.stringify(bootstrap))`

/** The command of Envoy's container, with a line on standard output for each response from 500 on. */
export function withFailureLog(command: readonly string[]): readonly string[] {
  const replaced = command.map((argument) => (argument === written ? extended : argument))
  return ['sh', '-c', 'node -e "$0" && exec "$@"', extend, ...replaced]
}
