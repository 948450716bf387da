/** Requests the list of models from a model's server as Envoy would: with its credential and its authorities. */

import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { hopHeader } from '../formats/hop-mark.ts'
import type { ModelRef } from '../kinds/resources.ts'
import { readServedModels, type ServedModel } from '../models/rules/model-list.ts'
import { readResponseBody, sendRequest } from '../runtime/http-request.ts'
import { inSlices } from '../runtime/slices.ts'
import { findAuthorities } from './bootstrap.ts'
import { type ListAllowance, readListWithin } from './list-allowance.ts'
import { type Secret, serverSecrets } from './secret-location.ts'
import type { SecretReading } from './secret-source.ts'

interface ServerListOptions {
  /** Reads a secret that the resource names, from a file or the cluster. */
  readonly readSecret: (secret: Secret) => Promise<SecretReading>
  /** `BACKEND_CA_FILE`. */
  readonly caFile: string | undefined
  /** The gateway's hop mark; our listeners refuse requests that carry it. */
  readonly hopMark: string
  /** Shared by all requests. */
  readonly allowance?: ListAllowance
  /** Aborts the request. */
  readonly signal: AbortSignal
}

const maxResponseBytes = 4 * 1_048_576

/** Identifies a server and our credential there. ModelRefs with the same identity get the same list. */
export function modelServerId({ backendUrl, backendHost, metadata, server }: ModelRef): string {
  const { credential, caFile } = server
  const isOwn = credential !== undefined || caFile !== undefined
  const all = [backendUrl, credential, caFile, isOwn && metadata.namespace]
  if (backendHost !== undefined) all.push(backendHost)
  return createHash('sha256').update(JSON.stringify(all)).digest('base64url')
}

/** The models that the server lists. Rejects for any status but 2xx, and for a late, oversized or invalid response. */
export async function requestServedModels(
  ref: ModelRef,
  options: ServerListOptions,
): Promise<readonly ServedModel[]> {
  const { backendUrl = '', backendHost: host, metadata, server } = ref
  const url = new URL(`${backendUrl.replace(/\/+$/, '')}/v1/models`)
  const [credential, authorities] = serverSecrets(metadata.namespace, server)
  const value = await read(credential, options)
  const headers = {
    accept: 'application/json',
    'user-agent': 'tollgate',
    [hopHeader]: options.hopMark,
    ...(host !== undefined && { host }),
    ...(server.credential && value !== undefined && { [server.credential.header]: value }),
  }
  // A separate connection, so that none stays open at servers that are asked twice a minute.
  const asked = { headers, agent: false, signal: options.signal } as const
  const tls = url.protocol === 'https:' && {
    ...(host !== undefined && isIP(host) === 0 && { servername: host }),
    ca: await authoritiesOf(authorities, options),
  }
  return readList(await sendRequest(url, { ...asked, ...tls }), options.allowance)
}

async function readList(
  response: IncomingMessage,
  allowance: ServerListOptions['allowance'],
): Promise<readonly ServedModel[]> {
  const { statusCode = 0 } = response
  if (statusCode < 200 || statusCode > 299) {
    response.destroy()
    throw new Error(`it answered ${statusCode}`)
  }
  return readListWithin(allowance, response, async () => {
    const text = await readResponseBody(response, maxResponseBytes)
    if (text === undefined) throw new Error('its list is larger than 4 MiB, or in too many pieces')
    return inSlices(readServedModels(text))
  })
}

/** The authorities of a server: its own, otherwise those for all servers, otherwise Node's (undefined). */
async function authoritiesOf(
  own: Secret | undefined,
  options: ServerListOptions,
): Promise<string | undefined> {
  if (own !== undefined) return await read(own, options)
  const file = options.caFile ?? findAuthorities()
  return file === undefined ? undefined : await readFile(file, 'utf8')
}

async function read(
  secret: Secret | undefined,
  { readSecret }: ServerListOptions,
): Promise<string | undefined> {
  if (secret === undefined) return undefined
  const reading = await readSecret(secret)
  if ('problem' in reading) throw new Error(reading.problem)
  return reading.text
}
