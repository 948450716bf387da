/** Whether what a process remembers of API keys may still be believed. */

export interface Freshness {
  /**
   * `confirmed`: what is remembered holds. `unconfirmed`: a revocation may have been missed (this
   * process was paused, or has just lost its listener); `confirm` first. `away`: the store is out
   * of reach and known to be, so asking would only take time.
   */
  state(): 'confirmed' | 'unconfirmed' | 'away'
  /** Milliseconds since the store last confirmed what is remembered; Infinity before the first time. */
  ageMs(): number
  /**
   * Catches up with the revocations missed, in one query however many ask. Settles, and never
   * rejects, once the state is `confirmed` or `away`, in bounded time.
   */
  confirm(): Promise<void>
}
