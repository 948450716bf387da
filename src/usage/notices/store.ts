/** Notices of nearly used limits and of keys that expire: each is recorded once, then sent. */

export interface Notice {
  /** The counter, or the key. */
  readonly subject: string
  /** Percentage of the limit; 0 for a key. */
  readonly percent: number
  /** End of the window, or of the key, in milliseconds since the epoch. */
  readonly endsAt: number
  /** Length of the window in milliseconds; 0 for a key. */
  readonly windowMs: number
  /** JSON. */
  readonly body: string
}

/** A notice that is due. */
export interface DueNotice {
  readonly id: string
  readonly body: string
  /** From 1. */
  readonly attempt: number
  /** In milliseconds by the database's clock, when it was taken. */
  readonly ageMs: number
}

/** A key that expires soon. */
export interface ExpiringKey {
  readonly id: string
  readonly name: string
  readonly user: string
  readonly subscription: string
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
}
