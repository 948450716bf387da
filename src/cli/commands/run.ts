/** Commands that run a component of Tollgate, or help to run one. */

import { command } from '../command.ts'
import { jsonFlag } from './flags.ts'

export const upFlags = { verbose: { means: 'print every address' } } as const

export const upCommand = command({
  name: 'up',
  summary: 'Run the whole gateway on this machine, with a sample model server',
  about:
    'Envoy, the service, Postgres, and a sample model server if the resources name it. npm start runs this command. ' +
    'Settings come from the environment; docs/settings.md lists them. Only GATEWAY_ADDRESS has to be free: listeners without a ' +
    'configured address use sockets and free ports, which DATA_DIR/run/addresses.json lists. Ctrl-C stops it.',
  flags: upFlags,
})

export const serveCommand = command({
  name: 'serve',
  summary: 'Run only the service',
  about:
    'Runs Check and the REST API until SIGTERM, SIGINT or SIGHUP, and then ends within 15 seconds. ' +
    'Under nohup it ignores SIGHUP, if it is started as bin/tollgate. SIGUSR2 sets the log level to debug; a second one restores it. The log consists of JSON lines.',
  details: async () => {
    const { settingsList } = await import('../../settings/show.ts')
    return `Settings come from the environment (default; meaning: value):\n\n${settingsList()}\n  OTEL_…\n      OpenTelemetry's variables: docs/tracing.md`
  },
  flags: {},
})

export const controllerCommand = command({
  name: 'controller',
  summary: 'Write the statuses of the resources in a cluster',
  about:
    'Needs RESOURCES=kubernetes. Of several controllers only the holder of the Lease tollgate-controller writes; the ' +
    'others wait to take over. The service does not need a controller. INTERNAL_ADDRESS serves /livez and /readyz, ' +
    'METRICS_ADDRESS its metrics. It runs until SIGTERM, SIGINT or SIGHUP. See docs/kubernetes.md.',
  flags: {},
})

export const drainCommand = command({
  name: 'drain',
  summary: 'Drain the gateway before it is stopped: finish its requests, refuse new ones',
  about:
    'Makes the service at INTERNAL_ADDRESS on this machine not ready, and drains its Envoy: every response closes its ' +
    'connection, and after DRAIN_MIN_SECONDS Envoy refuses new connections. The command ends when no request is in progress ' +
    'and no connection was used in the last five seconds, or after DRAIN_SECONDS. If the service is down, it ' +
    "drains Envoy directly, at ENVOY_ADMIN_ADDRESS. Use it as the preStop hook of Envoy's container. A drain cannot be " +
    'undone: stop Envoy and start it again.',
  flags: jsonFlag,
  exit: '0 no request is in progress, 1 requests are still in progress, 3 Envoy does not respond, so that nothing was drained.',
})

export const envoyConfigFlags = {
  write: {
    means:
      'write it to ENVOY_CONFIG_DIR (default DATA_DIR/envoy), where the service writes the clusters: bootstrap.json, ' +
      'certificate.json with GATEWAY_TLS_CERT_FILE, and clusters.json if it is missing; create the files of ' +
      'USAGE_JOURNAL; print the path of bootstrap.json',
  },
  validate: {
    means: 'validate it with Envoy (ENVOY_PATH, else envoy on PATH), in a temporary folder',
  },
  ...jsonFlag,
} as const

export const envoyConfigCommand = command({
  name: 'envoy-config',
  summary: 'Print, write or validate the configuration for your own Envoy',
  about:
    'Prints the complete configuration as JSON. Settings: GATEWAY_ADDRESS, GATEWAY_TLS_CERT_FILE, GATEWAY_TLS_KEY_FILE, ' +
    'GATEWAY_TRUSTED_HOPS, GATEWAY_GRPC_ENDPOINTS and GATEWAY_API_ENDPOINTS (one for each process of the service), ' +
    'ENVOY_ADMIN_ADDRESS, USAGE_JOURNAL, BACKEND_CA_FILE, CORS_ALLOWED_ORIGINS, HEADERS_TO_MODELS, ' +
    'BODY_LIMIT, ENVOY_HEAP_BYTES, UNUSABLE_USAGE, TRACE_TRUST_CLIENTS, OTEL_… and ENVOY_CONFIG_DIR. Start Envoy with: envoy -c <path> --file-flush-interval-msec 20',
  flags: envoyConfigFlags,
})

export const demoFlags = {
  requests: { takes: '<number>', means: 'how many; 200 by default, 10,000 at most' },
  remove: { means: 'remove the usage, and revoke the keys' },
  ...jsonFlag,
} as const

export const demoCommand = command({
  name: 'demo',
  summary: 'Generate demo keys, traffic and two weeks of usage for the gateway of tollgate up',
  about:
    'Generates data for the console. Creates keys for the sample identities of tollgate up, sends requests with them to its sample models, some of ' +
    'which are refused, and writes two weeks of usage of sample users, demo-*. ' +
    'The usage counts towards no limit; CSV, FOCUS, tollgate usage verify and tollgate simulate exclude it. The keys ' +
    'expire within 30 days. A new demo replaces the keys and usage of the previous demo. The usage is only written ' +
    'to the embedded database that tollgate up has created in DATA_DIR; for another gateway on this ' +
    'machine (TOLLGATE_URL) the command generates only keys and traffic.',
  flags: demoFlags,
})
