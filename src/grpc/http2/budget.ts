/** Limits operations that cost a peer nothing and us something: a burst, then a rate per second. */

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

  /** Takes this many; false if fewer are left. */
  take(count: number, nowMs: number): boolean {
    const { atOnce, perSecond } = this.#limits
    const filled = this.#left + ((nowMs - this.#filledAt) * perSecond) / 1_000
    this.#left = Math.min(atOnce, filled) - count
    this.#filledAt = nowMs
    return this.#left >= 0
  }

  /** Returns this many, for useful work of the peer. */
  give(count: number): void {
    this.#left = Math.min(this.#limits.atOnce, this.#left + count)
  }
}
