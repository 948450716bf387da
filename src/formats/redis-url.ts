/** The forms of REDIS_URL. Sentinel and Cluster have no standard form, so we define their forms. */

const form = /^(rediss?)(\+sentinel|\+cluster)?:\/\/(?:([^@/]*)@)?([^/?#]+)(?:\/([^?#]*))?$/

const defaultPorts = { single: 6_379, cluster: 6_379, sentinel: 26_379 }

export interface RedisTarget {
  readonly kind: 'single' | 'sentinel' | 'cluster'
  readonly nodes: readonly { readonly host: string; readonly port: number }[]
  /** Sentinel: name of the group. */
  readonly name: string
  readonly options: {
    readonly username?: string
    readonly password?: string
    readonly db?: number
    readonly tls?: Record<string, never>
  }
}

/**
 * Reads `redis://host:port[/db]`, `redis+sentinel://host:port,host:port/name` and
 * `redis+cluster://host:port,host:port`, each also with `rediss` and with `user:password@`, which
 * apply to the servers and not to Sentinel; undefined for other forms.
 */
export function parseRedisUrl(url: string): RedisTarget | undefined {
  const parts = form.exec(url)
  if (parts === null) return undefined
  const [, scheme, variant = '', credentials = '', hosts = '', path = ''] = parts
  const kind = variant === '' ? 'single' : (variant.slice(1) as 'sentinel' | 'cluster')
  const nodes = hosts.split(',').map((node) => parseNode(node, defaultPorts[kind]))
  const [username, password] = parseCredentials(credentials) ?? []
  if (nodes.includes(undefined) || username === undefined || password === undefined) {
    return undefined
  }
  if (kind === 'single' && (nodes.length !== 1 || !/^\d{0,3}$/.test(path))) return undefined
  if (kind === 'sentinel' && path === '') return undefined
  if (kind === 'cluster' && path !== '') return undefined
  return {
    kind,
    nodes: nodes as RedisTarget['nodes'],
    name: kind === 'sentinel' ? path : '',
    options: {
      ...(username !== '' && { username }),
      ...(password !== '' && { password }),
      ...(kind === 'single' && path !== '' && { db: Number(path) }),
      ...(scheme === 'rediss' && { tls: {} }),
    },
  }
}

function parseNode(node: string, defaultPort: number): RedisTarget['nodes'][number] | undefined {
  const parts = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:@[\]]+))(?::(\d{1,5}))?$/.exec(node)
  if (parts === null) return undefined
  const port = Number(parts[3] ?? defaultPort)
  return port < 65_536 ? { host: (parts[1] ?? parts[2]) as string, port } : undefined
}

/** User and password of a URL, each percent-encoded (RFC 3986, 3.2.1). */
function parseCredentials(raw: string): [string, string] | undefined {
  const colon = raw.indexOf(':')
  try {
    if (colon < 0) return [decodeURIComponent(raw), '']
    return [decodeURIComponent(raw.slice(0, colon)), decodeURIComponent(raw.slice(colon + 1))]
  } catch {
    return undefined
  }
}
