/** Readers of settings: the accepted form, in words and in code. */

import { existsSync } from 'node:fs'
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import {
  type Address,
  listenable,
  parseAddress,
  parseSocketAddress,
  type SocketAddress,
} from '../formats/address.ts'
import { parseRedisUrl } from '../formats/redis-url.ts'
import { parseDuration } from '../formats/time.ts'
import { isTrustworthy } from '../formats/trustworthy.ts'
import { isMeterName, meterable } from '../operations/operations.ts'

/** The result for a text that a reader does not accept. */
export const invalid: unique symbol = Symbol('invalid')

export interface Reader<T> {
  /** Completes "must be …". */
  readonly form: string
  readonly read: (raw: string) => T | typeof invalid
  /** Whether the value may contain a password, and so is never shown. */
  readonly secret?: boolean
}

export const anyText: Reader<string> = { form: 'a string', read: (raw) => raw }

export const flag: Reader<boolean> = {
  form: '`true` or `false`',
  read: (raw) => (/^(true|false)$/.test(raw) ? raw === 'true' : invalid),
}

export const secretText: Reader<string> = { ...anyText, secret: true }

/** The key of a webhook, as Standard Webhooks writes it. */
export const webhookSecret: Reader<Buffer> = {
  form: '`whsec_` and 24 to 64 bytes in base64',
  secret: true,
  read: (raw) => {
    const [, text = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(raw) ?? []
    const key = Buffer.from(text, 'base64')
    return key.length >= 24 && key.length <= 64 ? key : invalid
  },
}

/** A path, made absolute. */
export const path: Reader<string> = { form: 'a path', read: (raw) => resolve(raw) }

/** The target of the audit trail: `stdout`, or a path, made absolute. */
export const auditPlace: Reader<string> = {
  form: 'a path, or `stdout`',
  read: (raw) => (raw === 'stdout' ? raw : resolve(raw)),
}

/** The absolute path of the folder in `file:<folder>`, or undefined for the cluster. */
export const resources: Reader<string | undefined> = {
  form: '`file:<folder>` or `kubernetes`',
  read(raw) {
    if (raw === 'kubernetes') return undefined
    return /^file:./.test(raw) ? resolve(raw.slice('file:'.length)) : invalid
  },
}

const groups = ['tollgate.dev', 'maas.opendatahub.io'] as const

/** One or both of these. */
export const resourceGroups: Reader<readonly (typeof groups)[number][]> = {
  form: `a comma-separated list of ${groups.map((group) => `\`${group}\``).join(' and ')}`,
  read(raw) {
    const found = groups.filter((group) => itemsOf(raw).includes(group))
    return found.length > 0 && itemsOf(raw).length === found.length ? found : invalid
  },
}

const hasIpv6 = process.platform !== 'linux' || existsSync('/proc/net/if_inet6')

const here = <T extends Address>(address: T | undefined) => address && listenable(address, hasIpv6)

export const socketAddress: Reader<SocketAddress> = {
  form: '`host:port`',
  read: (raw) => here(parseSocketAddress(raw)) ?? invalid,
}

export const address: Reader<Address> = {
  form: '`host:port` or `unix:/path`',
  read: (raw) => here(parseAddress(raw)) ?? invalid,
}

/** One or more, separated by commas. */
export const addresses = listOf(
  '`host:port` or `unix:/path`, or a comma-separated list of these',
  (item) => here(parseAddress(item)),
)

/** The beginning of a key after `sk-`. */
export const marker = matching('1 to 16 lower-case letters and digits', /^[a-z0-9]{1,16}$/)

export const markers: Reader<ReadonlySet<string>> = {
  form: 'a comma-separated list of markers, each of 1 to 16 lower-case letters and digits',
  read: (raw) =>
    itemsOf(raw).every((item) => marker.read(item) !== invalid) ? new Set(itemsOf(raw)) : invalid,
}

/** Operations that can be counted, as named in `METER_PATHS`. */
export const meters = listOf(
  `a comma-separated list of ${Object.keys(meterable).join(', ')}`,
  (item) => (isMeterName(item) ? item : undefined),
)

/** A resource of the cluster, with its group. */
export const resourceName: Reader<{ readonly resource: string; readonly group: string }> = {
  form: 'a resource like `accesspolicies.tollgate.dev`',
  read(raw) {
    const [, resource = '', group = ''] = /^([a-z][a-z0-9-]*)\.([a-z0-9.-]+)$/.exec(raw) ?? []
    return group === '' ? invalid : { resource, group }
  },
}

const label = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?'

/** An object of the cluster, with its namespace. */
export const namespacedName = matching(
  '`<namespace>/<name>` in lower case',
  new RegExp(`^${label}/${label}(\\.${label})*$`),
)

/** A name whose namespace may be omitted. */
export const ownedName: Reader<{ readonly namespace: string | undefined; readonly name: string }> =
  {
    form: '`<name>` or `<namespace>/<name>` in lower case',
    read(raw) {
      const [name = '', namespace] = raw.split('/').reverse()
      const whole = `${namespace ?? 'any'}/${name}`
      const isGood = raw === (namespace === undefined ? name : whole)
      return isGood && namespacedName.read(whole) !== invalid ? { namespace, name } : invalid
    },
  }

export const domainName = matching(
  'a domain name in lower case',
  new RegExp(`^${label}(\\.${label})*$`),
)

/** Addresses, networks in CIDR notation, and `loopback`. */
export const networks = listOf(
  'a comma-separated list of addresses, networks like `10.0.0.0/8`, and `loopback`',
  (item) => (isNetwork(item) ? item : undefined),
)

/** Host names, addresses, networks in CIDR notation, and `loopback`. */
export const hosts = listOf(
  'a comma-separated list of host names, addresses, networks like `10.0.0.0/8`, and `loopback`',
  (item) => {
    const isHost = isNetwork(item) || (/[a-z]/.test(item) && domainName.read(item) !== invalid)
    return isHost ? item : undefined
  },
)

export const names: Reader<ReadonlySet<string>> = {
  form: 'a comma-separated list',
  read: (raw) => new Set(itemsOf(raw)),
}

/** At least one. */
export const someNames: Reader<ReadonlySet<string>> = {
  form: 'a comma-separated list of one or more',
  read(raw) {
    const found = new Set(itemsOf(raw))
    return found.size > 0 ? found : invalid
  },
}

/** As in FOCUS. */
export const currency = matching('three capital letters (ISO 4217)', /^[A-Z]{3}$/)

/** Origins as browsers write them. */
export const origins: Reader<readonly string[]> = {
  form: '`*`, or a comma-separated list of origins like `https://app.example` or `app://name`',
  read(raw) {
    const found = itemsOf(raw)
    return found.every((item) => item === '*' || isOrigin(item)) ? found : invalid
  },
}

/** As browsers send it: only they know the form for custom schemes of desktop apps and extensions. */
function isOrigin(raw: string): boolean {
  const url = URL.parse(raw)
  if (url === null || url.origin !== 'null') return url?.origin === raw && !raw.includes('*')
  return (
    url.protocol !== 'file:' &&
    /^[a-z][a-z0-9+.-]*:\/\/[\w.~-]+(:\d{1,5})?$/.test(raw) &&
    raw.startsWith(url.protocol)
  )
}

/** Prefixes of the headers that envoy/bootstrap.yaml removes unless the setting names them. */
export const modelHeaderPrefixes = [
  ...['x-llm-d-', 'x-gateway-inference-', 'x-gateway-model-name', 'x-gateway-destination-endpoint'],
  ...['x-slo-', 'x-prefill', 'x-encoder-', 'x-kv-cache-source-', 'x-data-parallel-', 'x-dp-rank'],
  ...['x-worker-instance-id', 'x-dynamo-', 'x-portkey-', 'x-litellm-', 'helicone-', 'cf-aig-'],
  ...['openai-organization', 'openai-project', 'x-hf-bill-to', 'x-goog-user-project'],
  'azureml-model-deployment',
]

export const modelHeaders: Reader<ReadonlySet<string>> = {
  form: `a comma-separated list of headers that begin with one of ${modelHeaderPrefixes.join(', ')}`,
  read(raw) {
    const found = itemsOf(raw.toLowerCase())
    const isRemoved = (item: string) => modelHeaderPrefixes.some((each) => item.startsWith(each))
    const isName = (item: string) => /^[a-z0-9-]+$/.test(item)
    return found.every((item) => isRemoved(item) && isName(item)) ? new Set(found) : invalid
  },
}

/** Display names by issuer. The last `=` separates them: an issuer may have one in its path. */
export const issuerNames: Reader<ReadonlyMap<string, string>> = {
  form: 'a comma-separated list of `https://issuer=Name`',
  read(raw) {
    const found = itemsOf(raw).map((item) => /^(https?:\/\/\S+?)\s*=\s*([^=]{1,64})$/.exec(item))
    if (found.length === 0 || found.includes(null)) return invalid
    return new Map(found.map((match) => [match?.[1] ?? '', match?.[2]?.trim() ?? '']))
  },
}

/** Names with values, which are not validated. May contain a collector's credential. */
export const pairs: Reader<string> = {
  form: 'a comma-separated list of `name=value`',
  secret: true,
  read: (raw) =>
    itemsOf(raw).every((item) => /^[^\s=,]+\s*=[^\r\n]*$/.test(item)) ? raw : invalid,
}

/** A fraction from 0 to 1. */
export const share: Reader<number> = {
  form: 'a number from 0 to 1',
  read(raw) {
    const value = Number(raw)
    return /^[0-9]*\.?[0-9]+$/.test(raw) && value <= 1 ? value : invalid
  },
}

export const redisUrl: Reader<string> = {
  form:
    '`redis://[user:password@]host:port[/db]`, `redis+sentinel://host:port,host:port/name` or ' +
    '`redis+cluster://host:port,host:port`, each also with `rediss`',
  secret: true,
  read: (raw) => (parseRedisUrl(raw) === undefined ? invalid : raw),
}

/** A whole number in this range, both ends included. */
export function integer(min: number, max: number): Reader<number> {
  return {
    form: `a whole number from ${min} to ${max}`,
    read(raw) {
      const value = Number(raw)
      return /^\d+$/.test(raw) && value >= min && value <= max ? value : invalid
    },
  }
}

/** Milliseconds of a whole number of seconds in this range, both ends included. */
export function seconds(min: number, max: number): Reader<number> {
  const { form, read } = integer(min, max)
  return {
    form,
    read(raw) {
      const count = read(raw)
      return count === invalid ? invalid : 1_000 * count
    },
  }
}

/** Milliseconds of a duration in this range, both ends included. */
export function duration(minText: string, maxText: string): Reader<number> {
  const [min = 0, max = 0] = [minText, maxText].map(readDuration)
  const range = min === 0 ? `at most ${maxText}` : `from ${minText} to ${maxText}`
  return {
    form: `a duration like 30s, 15m or 1h, ${range}`,
    read(raw) {
      const milliseconds = readDuration(raw)
      return milliseconds !== undefined && milliseconds >= min && milliseconds <= max
        ? milliseconds
        : invalid
    },
  }
}

/** File permissions, as for chmod. */
export const fileMode: Reader<number> = {
  form: 'three octal digits',
  read: (raw) => (/^[0-7]{3}$/.test(raw) ? Number.parseInt(raw, 8) : invalid),
}

/** A number per time span, in milliseconds. */
export const rate: Reader<{ readonly limit: number; readonly windowMs: number }> = {
  form: 'a number and a duration like `600/1m`, of at most 1h',
  read(raw) {
    const [, count, span = ''] = /^([1-9]\d{0,8})\/(.+)$/.exec(raw) ?? []
    const windowMs = count === undefined ? invalid : duration('1s', '1h').read(span)
    return windowMs === invalid ? invalid : { limit: Number(count), windowMs }
  },
}

/** A URL of one of these schemes. */
export function url(...schemes: readonly string[]): Reader<string> {
  return {
    form: `a URL that begins with ${schemes.map((scheme) => `\`${scheme}//\``).join(' or ')}`,
    secret: true,
    read(raw) {
      // Without the slashes a parser adds them, or reads the rest as a path.
      const scheme = /^[a-z]+:(?=\/\/)/i.exec(raw)?.[0].toLowerCase() ?? ''
      return schemes.includes(scheme) && URL.canParse(raw) ? raw : invalid
    },
  }
}

const anyHttpUrl = url('http:', 'https:')

/** The public base of URLs, to which paths are appended. */
export const baseUrl = narrowed(
  anyHttpUrl,
  'a URL that begins with `http://` or `https://`, without a user, a query and a fragment',
  (raw) => !/[?#]/.test(raw) && !URL.parse(raw)?.username,
)

/** Where requests are sent: `fetch` refuses URLs with a user or a password. */
export const receiverUrl = narrowed(
  anyHttpUrl,
  'a URL that begins with `http://` or `https://`, without a user and a password',
  (raw) => !URL.parse(raw)?.username && !URL.parse(raw)?.password,
)

const anyPostgresUrl = url('postgres:', 'postgresql:')
const sslModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full']

/** Validates what the driver takes for something else: several hosts for one name, and an unknown `sslmode` for another. */
export const postgresUrl = narrowed(
  anyPostgresUrl,
  'a URL that begins with `postgres://` or `postgresql://` and names one host, and whose `sslmode`, if it has one, is one of ' +
    `${sslModes.map((mode) => `\`${mode}\``).join(', ')}, and \`verify-ca\` only with \`sslrootcert\``,
  (raw) => {
    const { host = '', searchParams: query } = URL.parse(raw) ?? {}
    if (/,|%2c/i.test(host) || /,/.test(query?.getAll('host').join() ?? '')) return false
    const modes = query?.getAll('sslmode') ?? []
    const isKnown = modes.every((mode) => sslModes.includes(mode))
    return isKnown && (!modes.includes('verify-ca') || Boolean(query?.get('sslrootcert')))
  },
)

/** An OIDC issuer: exactly the text in its documents and tokens. */
export const issuerUrl: Reader<string> = {
  form: 'an https URL without query and fragment, or an http one on this machine',
  read: (raw) => (isTrustworthy(raw) && !/[?#]/.test(raw) ? raw : invalid),
}

export function oneOf<const Choice extends string>(...choices: readonly Choice[]): Reader<Choice> {
  return {
    form: `one of ${choices.map((choice) => `\`${choice}\``).join(', ')}`,
    read: (raw) => choices.find((choice) => choice === raw) ?? invalid,
  }
}

/** The other reader's value, or undefined for `off`. */
export function orOff<T>(reader: Reader<T>): Reader<T | undefined> {
  return {
    ...reader,
    form: `${reader.form}, or \`off\``,
    read: (raw) => (raw === 'off' ? undefined : reader.read(raw)),
  }
}

/** A reader that accepts fewer texts: those for which this holds. */
function narrowed(
  reader: Reader<string>,
  form: string,
  holds: (raw: string) => boolean,
): Reader<string> {
  return { ...reader, form, read: (raw) => (holds(raw) ? reader.read(raw) : invalid) }
}

/** A text of this form. */
function matching(form: string, pattern: RegExp): Reader<string> {
  return { form, read: (raw) => (pattern.test(raw) ? raw : invalid) }
}

/** One or more items, separated by commas; `read` returns undefined for an invalid one. */
function listOf<Item>(
  form: string,
  read: (item: string) => Item | undefined,
): Reader<readonly Item[]> {
  return {
    form,
    read(raw) {
      const found = itemsOf(raw).map(read)
      return found.length > 0 && found.every((item) => item !== undefined) ? found : invalid
    },
  }
}

function itemsOf(raw: string): readonly string[] {
  return raw
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '')
}

function isNetwork(item: string): boolean {
  if (item === 'loopback') return true
  const [address = '', bits, ...others] = item.split('/')
  const maxBits = isIP(address) === 6 ? 128 : 32
  const isGood = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= maxBits)
  return isIP(address) !== 0 && isGood && others.length === 0
}

/** Milliseconds; besides the durations of keys also `0` and `250ms`. */
function readDuration(raw: string): number | undefined {
  const milliseconds = /^(\d{1,9})ms$/.exec(raw)?.[1] ?? (raw === '0' ? '0' : undefined)
  return milliseconds === undefined ? parseDuration(raw) : Number(milliseconds)
}
