/** What the answered and unanswered questions to the log say about believing one's memory. */

import type { Freshness } from '../freshness.ts'
import type { PauseWatch } from './pause-watch.ts'

/** The bookkeeping behind `Freshness`; instants are the watch's, in milliseconds. */
export interface Confidence extends Pick<Freshness, 'state' | 'ageMs'> {
  /** All that was committed before `sentAt` has been taken in. */
  answered(sentAt: number): void
  /** A question sent then was not answered. */
  failed(sentAt: number): void
  /** From here on something may be missed: of the questions only those sent later count. */
  suspect(): void
}

export interface ConfidenceOptions {
  readonly watch: Pick<PauseWatch, 'now' | 'resumedAt'>
  /** How long an answer, or the failure of a question, counts at most. */
  readonly countsMs: number
}

export function createConfidence({ watch, countsMs }: ConfidenceOptions): Confidence {
  const never = Number.NEGATIVE_INFINITY
  let answeredAt = never
  let failure = { sentAt: never, at: never }
  let suspectAt = never

  return {
    answered(sentAt) {
      answeredAt = Math.max(answeredAt, sentAt)
    },
    failed(sentAt) {
      if (sentAt >= failure.sentAt) failure = { sentAt, at: watch.now() }
    },
    suspect() {
      suspectAt = watch.now()
    },
    state() {
      const now = watch.now()
      // A question that was under way during a pause says nothing about the time after it: its
      // deadline has passed, though perhaps nothing is wrong with the store.
      const countsFrom = Math.max(suspectAt, watch.resumedAt())
      if (failure.sentAt > answeredAt) {
        return failure.sentAt >= countsFrom && now - failure.at < countsMs ? 'away' : 'unconfirmed'
      }
      return answeredAt >= countsFrom && now - answeredAt < countsMs ? 'confirmed' : 'unconfirmed'
    },
    ageMs: () => watch.now() - answeredAt,
  }
}
