/**
 * Who is charged for a response, and at which rate, as the Subscription has it for the model when the request is
 * admitted. It is one text, because each field of Check's metadata costs the gateway time:
 * `organization=acme&cost_center=42&rate=0.000002`, URL-encoded, so that it needs no escapes in the usage journal.
 */

import { cutName } from '../../formats/bounded-text.ts'
import { parsePrice } from '../../formats/money.ts'
import type { Attribution, BilledModel } from '../../kinds/resources.ts'

/** Returns undefined if the Subscription sets none. Values longer than `maxNameLength` are cut. */
export function formatPayer(
  { organizationId, costCenter }: Attribution,
  { billingRate }: Pick<BilledModel, 'billingRate'>,
): string | undefined {
  const fields = {
    organization: organizationId,
    cost_center: costCenter,
    rate: billingRate?.perToken && parsePrice(billingRate.perToken),
  }
  const written = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) if (value) written.set(name, cutName(value))
  return written.toString() || undefined
}

/** Reads the text of `formatPayer`; any other text as if nothing were set. A field that is not set is empty. */
export function parsePayer(text: string) {
  const fields = new URLSearchParams(text)
  return {
    /** `tokenMetadata.organizationId`. */
    organization: fields.get('organization') ?? '',
    costCenter: fields.get('cost_center') ?? '',
    /** `billingRate.perToken`, without exponent. */
    rate: fields.get('rate') ?? '',
  }
}
