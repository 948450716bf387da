/** How a Subscription admits requests: what it says itself, then ADMISSION_MODE. */

import type { AdmissionMode, AdmissionRules, Subscription } from '../../kinds/resources.ts'

/** undefined: it only counts. */
export function admissionRules(
  { admission = {} }: Pick<Subscription, 'admission'>,
  byDefault: AdmissionMode,
): AdmissionRules | undefined {
  const { mode = byDefault, overshootPercent = 25, charge = 'admission' } = admission
  return mode === 'count' ? undefined : { overshoot: overshootPercent / 100, charge }
}
