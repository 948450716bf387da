/**
 * `envoy.service.accesslog.v3.StreamAccessLogsMessage` → the Usage of each response in it.
 *
 * The entry carries the metadata that Check returned (who, what, paid by what) back to us beside
 * what Envoy read from the answer, so that nothing is kept between the two.
 */

import type { Usage } from '../core/usage.ts'
import { type FlatValue, readStruct } from '../grpc/struct.ts'
import { WireReader } from '../grpc/wire.ts'

/** Metadata namespace of the tokens that Envoy lifts from an answer. */
const usageNamespace = 'tollgate.usage'
/** Metadata namespace of Check's answer; Envoy adds the filter's own suffix to it. */
const checkNamespace = 'envoy.filters.http.ext_authz'

/** The metered responses that one message tells of. Throws a WireError for bytes that are none. */
export function readUsages(bytes: Buffer): readonly Usage[] {
  const usages: Usage[] = []
  const message = new WireReader(bytes)
  while (message.next()) {
    // http_logs = 2; the identifier (1) of a stream's first message is 60 KB of Envoy's node.
    if (message.field !== 2) continue
    const entries = message.message()
    while (entries.next()) {
      if (entries.field !== 1) continue
      const usage = readEntry(entries.message())
      if (usage !== undefined) usages.push(usage)
    }
  }
  return usages
}

/** HTTPAccessLogEntry: common_properties = 1, response = 4. */
function readEntry(entry: WireReader): Usage | undefined {
  let check: ReadonlyMap<string, FlatValue> | undefined
  let used: ReadonlyMap<string, FlatValue> | undefined
  let status = 0
  while (entry.next()) {
    if (entry.field === 1) {
      const metadata = readMetadata(entry.message())
      check = metadata.check
      used = metadata.used
    } else if (entry.field === 4) {
      status = readStatus(entry.message())
    }
  }
  if (check?.get('metered') !== true) return undefined
  return {
    user: String(check.get('user')),
    subscription: String(check.get('subscription')),
    model: String(check.get('model')),
    status,
    totalTokens: used?.get('total_tokens'),
  }
}

/** AccessLogCommon: metadata = 17; Metadata: filter_metadata = 1, a map of Structs. */
function readMetadata(common: WireReader): {
  check: ReadonlyMap<string, FlatValue> | undefined
  used: ReadonlyMap<string, FlatValue> | undefined
} {
  let check: ReadonlyMap<string, FlatValue> | undefined
  let used: ReadonlyMap<string, FlatValue> | undefined
  while (common.next()) {
    if (common.field !== 17) continue
    const metadata = common.message()
    while (metadata.next()) {
      if (metadata.field !== 1) continue
      const entry = metadata.message()
      let namespace = ''
      while (entry.next()) {
        if (entry.field === 1) namespace = entry.string()
        else if (entry.field === 2 && namespace === usageNamespace) {
          used = readStruct(entry.message())
        } else if (entry.field === 2 && namespace.startsWith(checkNamespace)) {
          check = readStruct(entry.message())
        }
      }
    }
  }
  return { check, used }
}

/** HTTPResponseProperties: response_code = 1, a UInt32Value. */
function readStatus(response: WireReader): number {
  while (response.next()) {
    if (response.field !== 1) continue
    const wrapped = response.message()
    while (wrapped.next()) if (wrapped.field === 1) return wrapped.unsigned()
  }
  return 0
}
