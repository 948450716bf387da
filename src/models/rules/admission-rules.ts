/** How a Subscription admits requests: what it says itself, then what the settings say (ADMISSION_…). */

import type { AdmissionDefaults, AdmissionRules, Subscription } from '../../kinds/resources.ts'

/** Without settings. */
export const builtInAdmission: AdmissionDefaults = {
  mode: 'count',
  overshoot: 0.25,
  charge: 'admission',
}

/** undefined: it only counts. */
export function admissionRules(
  { admission: written = {} }: Pick<Subscription, 'admission'>,
  defaults: AdmissionDefaults,
): AdmissionRules | undefined {
  const { mode = defaults.mode, overshootPercent, charge = defaults.charge } = written
  if (mode === 'count') return undefined
  const overshoot = overshootPercent === undefined ? defaults.overshoot : overshootPercent / 100
  return { overshoot, charge }
}
