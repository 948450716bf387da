/** The address and credentials of the cluster's API server, from a pod's service account or a KUBECONFIG. */

import { readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parse } from 'yaml'
import { isObject, type JsonObject } from '../formats/fields.ts'
import { isTrustworthy } from '../formats/trustworthy.ts'
import { errorMessage } from '../runtime/error-message.ts'
import type { ClusterAccess } from './client.ts'

const accountFolder = '/var/run/secrets/kubernetes.io/serviceaccount'

/** Where the API server is, by the settings. */
interface ClusterSettings {
  /** A file; it takes precedence. */
  readonly kubeconfig: string | undefined
  readonly kubernetesHost: string | undefined
  readonly kubernetesPort: number
}

/** The address and credentials of the API server. Throws an error that names the setting to check. */
export function accessOf({
  kubeconfig,
  kubernetesHost,
  kubernetesPort,
}: ClusterSettings): ClusterAccess {
  if (kubeconfig === undefined) return fromServiceAccount(kubernetesHost ?? '', kubernetesPort)
  try {
    return fromKubeconfig(kubeconfig)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const problem = code?.startsWith('E') ? `cannot be read (${code})` : errorMessage(error)
    throw new Error(`KUBECONFIG: ${kubeconfig} ${problem}`)
  }
}

/** The files of a pod (Kubernetes, "Accessing the API from a Pod"). */
export function fromServiceAccount(
  host: string,
  port: number,
  folder: string = accountFolder,
): ClusterAccess {
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    tokenFile: join(folder, 'token'),
    caFile: join(folder, 'ca.crt'),
  }
}

/** The current context of a file. Throws an error that names missing or unsupported parts. */
export function fromKubeconfig(path: string): ClusterAccess {
  // Pretty errors quote lines of the file, which has credentials.
  const file: unknown = parse(readFileSync(path, 'utf8'), { prettyErrors: false })
  if (!isObject(file)) throw new Error('is not a KUBECONFIG')
  const context = named(file.contexts, file['current-context'], 'context')
  const cluster = named(file.clusters, context.cluster, 'cluster')
  const user = named(file.users, context.user, 'user')
  for (const field of ['insecure-skip-tls-verify', 'tls-server-name', 'proxy-url']) {
    if (cluster[field]) throw new Error(`has ${field}, which is not supported`)
  }
  for (const field of ['exec', 'auth-provider', 'username', 'as']) {
    if (user[field]) throw new Error(`has ${field}, which is not supported`)
  }
  const server = textOf(cluster.server) ?? ''
  if (!isTrustworthy(server)) throw new Error('has a server that is neither https nor local')
  const at = (value: unknown): string | undefined => {
    const written = textOf(value)
    return written === undefined ? undefined : resolve(dirname(path), written)
  }
  /** Either the text itself, in base64, or a file, which may change. */
  const pem = (of: JsonObject, field: string, name: 'ca' | 'cert' | 'key') => {
    const data = textOf(of[`${field}-data`])
    if (data !== undefined) return { [name]: Buffer.from(data, 'base64').toString() }
    const place = at(of[field])
    if (place !== undefined) readFileSync(place)
    return { [`${name}File`]: place }
  }
  return {
    server,
    token: textOf(user.token),
    tokenFile: at(user.tokenFile),
    ...pem(cluster, 'certificate-authority', 'ca'),
    ...pem(user, 'client-certificate', 'cert'),
    ...pem(user, 'client-key', 'key'),
  }
}

/** The entry of a list of KUBECONFIG: `{ name, cluster: {…} }` and so on. */
function named(list: unknown, name: unknown, kind: string): JsonObject {
  const entries: readonly unknown[] = Array.isArray(list) ? list : []
  const entry = entries.find((each) => isObject(each) && each.name === name)
  const found = isObject(entry) ? entry[kind] : undefined
  if (!isObject(found)) throw new Error(`has no ${kind} ${JSON.stringify(name) ?? ''}`.trimEnd())
  return found
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
