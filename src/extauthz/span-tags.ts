/** Adds the decision of a Check to the gateway's span of the request. */

import type { Decision } from '../decide/decision.ts'
import { toShown } from '../formats/redact.ts'
import { writeStruct } from '../grpc/struct.ts'
import { WireWriter } from '../grpc/wire.ts'
import type { RefusedCheck } from './refused-check.ts'

/**
 * The CheckResponse with its decision in the dynamic metadata (field 4, which parsers merge with
 * existing metadata), and the model and subscription.
 */
export function tagSpan(
  response: Buffer,
  decision: Decision,
  asked: Pick<RefusedCheck, 'caller' | 'model' | 'subscription'>,
): Buffer {
  const writer = new WireWriter()
  if (decision.allowed) {
    const { subscription, model } = decision
    writeStruct(writer, 4, { decision: 'allowed', subscription, model: model.key })
  } else {
    writeStruct(writer, 4, { decision: decision.code, ...namedBy(asked) })
  }
  return Buffer.concat([response, writer.finish()])
}

/** The model and the subscription that a refusal names, if any. */
export function namedBy({
  caller,
  model,
  subscription,
}: Pick<RefusedCheck, 'caller' | 'model' | 'subscription'>) {
  const paying = caller?.by === 'key' ? caller.subscription : subscription
  return {
    ...(paying !== undefined && { subscription: toShown(paying) }),
    ...(model !== undefined && { model: toShown(model) }),
  }
}
