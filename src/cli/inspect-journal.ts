/** Problems of the folder that a gateway and its processes share, if another process can detect them. */

import { requestAdmin } from '../gateway/admin-page.ts'
import { flushMsIn, serverInfoPath, slowFlushMs } from '../journal/envoy-log.ts'
import { journalFilesOf } from '../journal/journal-files.ts'
import { fileModeOf, findMismatch } from '../journal/prepare-folder.ts'
import type { Config } from '../settings/config.ts'

/** One sentence each. An Envoy that does not respond is another finding. */
export async function inspectJournal(
  config: Pick<Config, 'usageJournal' | 'socketMode' | 'envoyAdminAddress'>,
): Promise<readonly string[]> {
  const { usageJournal, socketMode, envoyAdminAddress: admin } = config
  if (usageJournal === undefined) return ['USAGE_JOURNAL is off: nothing is counted']
  const files = journalFilesOf(usageJournal)
  const [info = '', listeners = ''] = await Promise.all([
    requestAdmin(admin, serverInfoPath).catch(() => undefined),
    requestAdmin(admin, '/config_dump?resource=static_listeners').catch(() => undefined),
  ])
  const flushMs = flushMsIn(info)
  const written = [...listeners.matchAll(/"path":\s*"([^"]+\.jsonl)"/g)].map(([, path]) => path)
  const mismatch = findMismatch(files, fileModeOf(socketMode))
  return [
    ...(mismatch === undefined ? [] : [mismatch]),
    ...(flushMs > slowFlushMs
      ? [`Envoy writes its log every ${flushMs} ms: start it with --file-flush-interval-msec 20`]
      : []),
    ...(listeners === '' || written.includes(files.envoy)
      ? []
      : [
          `Envoy writes to ${written.join(' and ') || 'no journal'}, and USAGE_JOURNAL names ${files.envoy}: run tollgate envoy-config`,
        ]),
  ]
}
