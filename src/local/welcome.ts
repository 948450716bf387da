import { join } from 'node:path'
import { showAddress } from '../settings/config.ts'
import { describePaths } from '../settings/describe-paths.ts'
import { localUrl, type UpSettings } from './up-settings.ts'

/** The content of the welcome text. */
export interface WelcomeOptions {
  readonly settings: UpSettings
  /** undefined: the cluster's resources. */
  readonly resourceFolder: string | undefined
  /** The `curl` commands, or none if resources or identities are not the sample's. */
  readonly lines: readonly string[]
}

/** The text with all addresses, identities and sample commands. */
export function welcome({ settings, resourceFolder, lines }: WelcomeOptions): string {
  const { config, sampleTokens } = settings
  const rows: [string, string][] = [
    [
      'Gateway',
      `${localUrl(config.gatewayAddress)}/v1  (an OpenAI client's base URL; and the API)`,
    ],
    ['Console', `${localUrl(config.gatewayAddress)}/console  (keys and models, on a page)`],
    [
      'API itself',
      'path' in config.apiAddress ? showAddress(config.apiAddress) : localUrl(config.apiAddress),
    ],
    ['Internal API', localUrl(config.internalAddress)],
    ['gRPC for Envoy', config.grpcAddresses.map(showAddress).join(', ')],
    ...(config.metricsAddress
      ? [['Metrics', `${localUrl(config.metricsAddress)}/metrics`] as [string, string]]
      : []),
    [
      'Envoy admin',
      'path' in config.envoyAdminAddress
        ? showAddress(config.envoyAdminAddress)
        : localUrl(config.envoyAdminAddress),
    ],
    ['Sample model', localUrl(config.modelServerAddress)],
    ['Operations', describePaths(config.paths)],
    [
      'Resources',
      resourceFolder === undefined
        ? "the cluster's"
        : `${resourceFolder}  (reloaded when a file changes)`,
    ],
    ['Data', config.dataDir],
    ['Logs', join(config.dataDir, 'log')],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  const table = rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`)
  return [
    '',
    'Tollgate is up',
    '',
    ...table,
    ...identities(sampleTokens, localUrl(config.gatewayAddress)),
    ...(lines.length > 0 ? tries(lines) : firstSteps(localUrl(config.gatewayAddress))),
    '',
  ].join('\n')
}

function identities(sample: boolean, gateway: string): string[] {
  if (!sample) return []
  return [
    '',
    'Identities for trying out (everybody knows these tokens, so all listens on this machine only):',
    '  alice  (group team-a)           alice-token',
    '  carol  (group team-a)           carol-token',
    '  bob    (group team-b)           bob-token',
    '  admin  (group tollgate-admins)  admin-token',
    `Sign in with one of them at ${gateway}/console. For something to look at there:`,
    `  TOLLGATE_URL=${gateway} bin/tollgate demo`,
  ]
}

/** The commands for resources or identities that are not the sample's. */
function firstSteps(gateway: string): string[] {
  return [
    '',
    'Make a key with an identity token of yours, then call a model with it. Ctrl-C stops everything.',
    '',
    'export TOLLGATE_TOKEN=…   # from TOKEN_AUTH_FILE, or of your identity provider',
    `KEY=$(TOLLGATE_URL=${gateway} bin/tollgate key new first)`,
    `curl ${gateway}/v1/models -H "authorization: Bearer $KEY"`,
    `curl ${gateway}/v1/chat/completions -H "authorization: Bearer $KEY" \\`,
    `  -d '{"model":"…","messages":[{"role":"user","content":"Hello"}]}'`,
  ]
}

function tries(lines: readonly string[]): string[] {
  return [
    '',
    'Try it: an answer (200), a model this key may not use (403), a spent limit (429).',
    'The keys are good for an hour; Ctrl-C stops everything.',
    '',
    ...lines,
  ]
}
