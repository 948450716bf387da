/**
 * Requests to our own gateway, the only place to which this service sends a caller's credential: no
 * resource can name another address, and no redirect is followed.
 */

import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { Agent } from 'node:https'
import { sendRequest } from '../../runtime/http-request.ts'
import { Agent as HttpAgent } from '../../runtime/node-http.ts'

/** Where the gateway listens, as this machine reaches it. */
export interface GatewayLocation {
  readonly host: string
  readonly port: number
  /** Its certificate (PEM), the only one that is accepted, or undefined if it uses plain HTTP. */
  readonly certFile: string | undefined
}

/** Requests a path (GET). Rejects if the gateway cannot be reached, or has another certificate than the file has. */
export type GatewayClient = (
  path: string,
  headers: OutgoingHttpHeaders,
  signal: AbortSignal,
) => Promise<IncomingMessage>

const kept = { keepAlive: true, timeout: 30_000 }

export function createGatewayClient({ host, port, certFile }: GatewayLocation): GatewayClient {
  const plain = new HttpAgent(kept)
  let reading: Promise<Agent> | undefined
  let trusted: { readonly pem: Buffer; readonly agent: Agent } | undefined

  /** The agent, with its open connections, stays as long as the file has the same certificate. */
  async function connect(file: string): Promise<Agent> {
    const pem = await readFile(file)
    if (!trusted?.pem.equals(pem)) trusted = { pem, agent: trustOnly(pem) }
    return trusted.agent
  }

  return async function askGateway(path, headers, signal) {
    if (certFile !== undefined) reading ??= connect(certFile)
    const used = reading
    try {
      const agent = (await used) ?? plain
      const url = certFile === undefined ? 'http://gateway' : 'https://gateway'
      return await sendRequest(url, { hostname: host, port, path, headers, agent, signal })
    } catch (error) {
      // The file is read again: its certificate may have been renewed.
      if (reading === used) reading = undefined
      throw error
    }
  }
}

/**
 * The certificate is for a public name and may come from any authority. Here it is trusted itself,
 * whatever its names are.
 */
function trustOnly(pem: Buffer): Agent {
  const { fingerprint256 } = new X509Certificate(pem)
  return new Agent({
    ...kept,
    ca: pem,
    allowPartialTrustChain: true,
    checkServerIdentity: (_host, shown) =>
      shown.fingerprint256 === fingerprint256
        ? undefined
        : new Error('the gateway has another certificate than GATEWAY_TLS_CERT_FILE'),
  })
}
