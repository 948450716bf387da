/** TLS of the listeners, from the settings. */

import type { Config } from '../settings/config.ts'
import { type ListenerTls, openListenerTls, type TlsSettings } from '../tls/listener-tls.ts'
import type { Context } from './context.ts'

/** Returns undefined if the listeners use plaintext. */
export function openConfiguredTls({
  config,
  log,
  stops,
}: Pick<Context, 'config' | 'log' | 'stops'>): ListenerTls | undefined {
  const settings = tlsSettings(config)
  if (settings === undefined) return undefined
  const tls = openListenerTls(settings, {
    onRead: (validTo) =>
      log.info(
        { code: 'certificate_read', file: settings.certFile, validTo },
        'loaded certificate',
      ),
    onProblem: (problem) =>
      log.error(
        { code: 'certificate_unusable', problem },
        'cannot use the new certificate: the previous one stays in force',
      ),
  })
  stops.push(() => tls.close())
  return tls
}

/** Returns undefined if there is no TLS. */
export function tlsSettings(config: Config): TlsSettings | undefined {
  const { tlsCertFile, tlsKeyFile, tlsClientCaFile, tlsMinVersion } = config
  if (tlsCertFile === undefined || tlsKeyFile === undefined) return undefined
  return {
    certFile: tlsCertFile,
    keyFile: tlsKeyFile,
    clientCaFile: tlsClientCaFile,
    minVersion: tlsMinVersion,
  }
}
