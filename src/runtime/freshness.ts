/** Whether a process may still trust its cache of API keys. */

export interface Freshness {
  /**
   * `confirmed`: the cache is valid. `unconfirmed`: a revocation may have been missed (this process
   * was paused, or has just lost its listener); call `confirm` first. `unavailable`: the store is known to
   * be unavailable, so asking it would only take time.
   */
  state(): 'confirmed' | 'unconfirmed' | 'unavailable'
  /** Milliseconds since the store last confirmed the cache; Infinity before the first time. */
  ageMs(): number
  /**
   * Catches up with missed revocations, in one query for all callers. Resolves in bounded time when
   * the state is `confirmed` or `unavailable`; never rejects.
   */
  confirm(): Promise<void>
}
