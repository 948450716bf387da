/** The text that `tollgate up` prints when everything runs. */

import { join, sep } from 'node:path'
import { type Address, formatAddress, type SocketAddress } from '../src/formats/address.ts'
import { packageRoot } from '../src/runtime/package-root.ts'
import { settings as defaults } from '../src/settings/all-settings.ts'
import { describePaths } from '../src/settings/describe-paths.ts'
import { listenersOf } from './own-addresses.ts'
import { localUrl, type UpSettings } from './up-settings.ts'

/** Whether this is the installed package, whose `tollgate` is on PATH, and not a clone. */
const isInstalled = packageRoot.split(sep).includes('node_modules')
const program = isInstalled ? 'tollgate' : 'bin/tollgate'
const start = isInstalled ? 'tollgate up' : 'npm start --'

/** The content of the welcome text. */
interface WelcomeOptions {
  readonly settings: UpSettings
  /** Undefined for the cluster's resources. */
  readonly resourceFolder: string | undefined
  /** Undefined without a sample model server. */
  readonly modelServerAddress: SocketAddress | undefined
  /** The `curl` commands, or none if resources or identities are not the sample's. */
  readonly tries: readonly string[]
  /** The code of the link that signs in to the sample on the console; undefined without the sample. */
  readonly code: string | undefined
  /** Whether every address is shown. */
  readonly isVerbose: boolean
}

/** The text: what to try first, then where everything is. */
export function welcome(options: WelcomeOptions): string {
  const { settings, tries, isVerbose } = options
  const gateway = localUrl(settings.config.gatewayAddress)
  const rows = [...usualRows(options, gateway), ...(isVerbose ? addressRows(options) : [])]
  const width = Math.max(...rows.map(([name]) => name.length))
  return [
    '',
    ...(tries.length > 0
      ? ['Tollgate is up. Commands to try, with keys that are valid for an hour:', '', ...tries]
      : firstSteps(gateway)),
    '',
    ...rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`),
    '',
    ...(isVerbose ? [] : [`${start} --verbose shows every address.`]),
    'Ctrl-C stops everything.',
    '',
  ].join('\n')
}

type Row = readonly [name: string, value: string]

function usualRows({ settings, resourceFolder, code }: WelcomeOptions, gateway: string): Row[] {
  const { config, sampleResources, sampleTokens } = settings
  const folder = resourceFolder === undefined ? "the cluster's" : resourceFolder
  return [
    code === undefined
      ? ['Console', `${gateway}/console`]
      : ['Console', `${gateway}/console#sample=${code}  (one click to sign in; for you alone)`],
    ['Base URL', `${gateway}/v1  (Anthropic's clients: without /v1)`],
    ...(sampleTokens
      ? [
          [
            'Identities',
            'alice-token, bob-token, carol-token, admin-token  (public, for trying out)',
          ] as const,
        ]
      : []),
    ...(sampleResources && sampleTokens && config.databaseUrl === undefined
      ? [['To look at', `${folderOf(config)}${program} demo`] as const]
      : []),
    ['Tokens', describePaths(config.paths)],
    [
      'Resources',
      resourceFolder === undefined ? folder : `${folder}  (changes take effect at once)`,
    ],
    ['Logs', join(config.dataDir, 'log')],
  ]
}

/** The prefix with which other commands find this DATA_DIR. */
function folderOf({ dataDir }: UpSettings['config']): string {
  return dataDir === defaults.dataDir.fallback ? '' : `DATA_DIR=${inShell(dataDir)} `
}

function inShell(path: string): string {
  return /^[-\w./]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`
}

function addressRows({ settings, modelServerAddress }: WelcomeOptions): Row[] {
  const { config } = settings
  const all: (readonly [string, Address])[] = [
    ...listenersOf(config),
    ...(modelServerAddress ? [['MODEL_SERVER_ADDRESS', modelServerAddress] as const] : []),
  ]
  return [
    ...all.map(([setting, address]): Row => [setting, formatAddress(address)]),
    ['DATA_DIR', config.dataDir],
    ['UNIX_SOCKET_MODE', config.socketMode.toString(8)],
    ['USAGE_JOURNAL', config.usageJournal ?? 'off'],
  ]
}

/** The commands for resources or identities that are not the sample's. */
function firstSteps(gateway: string): string[] {
  return [
    'Tollgate is up. Make a key with an identity token of yours, then call a model with it:',
    '',
    'export TOLLGATE_TOKEN=…   # from TOKEN_AUTH_FILE, or of your identity provider',
    `KEY=$(TOLLGATE_URL=${gateway} ${program} key new first)`,
    `curl ${gateway}/v1/models -H "authorization: Bearer $KEY"`,
    `curl ${gateway}/v1/chat/completions -H "authorization: Bearer $KEY" \\`,
    `  -d '{"model":"…","messages":[{"role":"user","content":"Hello"}]}'`,
  ]
}
