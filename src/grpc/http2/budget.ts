/** How often a peer may do what costs it nothing and us something: so many at once, then so many a second. */

export interface BudgetLimits {
  readonly atOnce: number
  readonly perSecond: number
}

export class Budget {
  readonly #limits: BudgetLimits
  #left: number
  #filledAt: number

  constructor(limits: BudgetLimits, nowMs: number) {
    this.#limits = limits
    this.#left = limits.atOnce
    this.#filledAt = nowMs
  }

  /** Takes so many; false when there are not as many left. */
  take(count: number, nowMs: number): boolean {
    const { atOnce, perSecond } = this.#limits
    const filled = this.#left + ((nowMs - this.#filledAt) * perSecond) / 1_000
    this.#left = Math.min(atOnce, filled) - count
    this.#filledAt = nowMs
    return this.#left >= 0
  }

  /** Gives so many more, for what a peer did that was worth it. */
  give(count: number): void {
    this.#left = Math.min(this.#limits.atOnce, this.#left + count)
  }
}
