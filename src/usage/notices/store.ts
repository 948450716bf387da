/** Notices of nearly used limits and of keys that expire: each is recorded once, then sent. */

export interface Notice {
  /** The counter, or the key. */
  readonly subject: string
  /** Of the limit; 0 for a key. */
  readonly percent: number
  /** End of the window, or of the key, in milliseconds since the epoch. */
  readonly endsAt: number
  /** Length of the window in milliseconds; 0 for a key. */
  readonly windowMs: number
  /** JSON. */
  readonly body: string
}

/** A notice that is to be sent now. */
export interface DueNotice {
  readonly id: string
  readonly body: string
  /** From 1. */
  readonly attempt: number
  /** Milliseconds since the epoch. */
  readonly createdAt: number
}

/** A key of which little time is left. */
export interface ExpiringKey {
  readonly id: string
  readonly name: string
  readonly user: string
  readonly subscription: string
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
}

/** Every method throws `store_unavailable` if the database is unavailable. */
export interface NoticeStore {
  /** Records notices, except those of a window or an end that has one. */
  add(notices: readonly Notice[]): Promise<void>
  /** Takes at most `most` that are due, for `leaseMs`; then they are due again. */
  take(max: number, leaseMs: number): Promise<readonly DueNotice[]>
  /** It was sent, or is given up. */
  finish(id: string): Promise<void>
  /** It is due again after this time in milliseconds. */
  postpone(id: string, ms: number): Promise<void>
  /** Removes what is over. */
  tidy(): Promise<void>
  /** Active keys, at most `most`, with a tenth of their life left, at most a week, and no notice. */
  expiring(max: number): Promise<readonly ExpiringKey[]>
}
