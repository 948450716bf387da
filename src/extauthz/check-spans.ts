/** Spans of Checks, for calls that are sampled. */

import type { Decision } from '../decide/decision.ts'
import { isTraceSampled } from '../formats/headers.ts'
import type { VerifyCredential } from '../identity/authenticate.ts'
import type { Check } from './check.ts'
import { namedBy } from './check-response.ts'
import type { RefusedCheck } from './refused-check.ts'

/** Spans, as telemetry makes them. */
interface Spans {
  readonly isOn: boolean
  server<Result>(name: string, traceparent: string | undefined, act: () => Result): Result
  isActive(): boolean
  annotate(tags: Readonly<Record<string, string>>): void
}

/** Wraps a Check in a span if its call is sampled. */
export function traceCheck(spans: Spans, check: Check): Check {
  if (!spans.isOn) return check
  return (bytes, traceparent, call) =>
    isTraceSampled(traceparent)
      ? spans.server('Check', traceparent, () => check(bytes, traceparent, call))
      : check(bytes, traceparent, call)
}

/** Wraps `verify` so that it adds to the Check's span where the key was found. */
export function traceKey(spans: Spans, verify: VerifyCredential): VerifyCredential {
  if (!spans.isOn) return verify
  return (credential, now, source) => {
    const found = verify(credential, now, source)
    if (spans.isActive()) {
      spans.annotate({ 'tollgate.key.from': found instanceof Promise ? 'store' : 'memory' })
    }
    return found
  }
}

interface CheckListeners<More extends readonly unknown[]> {
  readonly onDecided: (decision: Decision, ...more: More) => void
  readonly onRefused: (refused: RefusedCheck) => void
}

/** Wraps the callbacks so that they add the decision to the Check's span. */
export function traceDecisions<More extends readonly unknown[]>(
  spans: Spans,
  { onDecided, onRefused }: CheckListeners<More>,
): CheckListeners<More> {
  if (!spans.isOn) return { onDecided, onRefused }
  return {
    onDecided(decision, ...more) {
      onDecided(decision, ...more)
      if (!decision.allowed || !spans.isActive()) return
      spans.annotate({
        'tollgate.decision': 'allowed',
        'tollgate.subscription': decision.subscription,
        'tollgate.model': decision.model.key,
      })
    },
    onRefused(refused) {
      onRefused(refused)
      if (!spans.isActive()) return
      const tags = Object.entries({ decision: refused.code, ...namedBy(refused) })
      spans.annotate(Object.fromEntries(tags.map(([tag, value]) => [`tollgate.${tag}`, value])))
    },
  }
}
