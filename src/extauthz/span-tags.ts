/** What a Check tells the span that the gateway has of the request. */

import type { Decision } from '../core/decide.ts'
import { redact } from '../core/redact.ts'
import { writeStruct } from '../grpc/struct.ts'
import { WireWriter } from '../grpc/wire.ts'
import type { RefusedCheck } from './service.ts'

const longestText = 256

/**
 * The CheckResponse with its decision in the dynamic metadata (field 4, which a parser merges with
 * what stands there), and of a refusal the model and subscription that an allow has there anyway.
 */
export function tagSpan(
  response: Buffer,
  decision: Decision,
  asked: Pick<RefusedCheck, 'caller' | 'model' | 'subscription'>,
): Buffer {
  const writer = new WireWriter()
  if (decision.allowed) {
    writeStruct(writer, 4, { decision: 'allowed' })
  } else {
    const { caller, model, subscription } = asked
    const paying = caller?.by === 'key' ? caller.subscription : subscription
    writeStruct(writer, 4, {
      decision: decision.code,
      ...(model !== undefined && { model: clean(model) }),
      ...(paying !== undefined && { subscription: clean(paying) }),
    })
  }
  return Buffer.concat([response, writer.finish()])
}

/** A client's own text: of a bearable length, and without what looks like a secret. */
function clean(text: string): string {
  return redact(text).slice(0, longestText)
}
