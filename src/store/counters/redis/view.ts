/**
 * One process's view of a shared counter: the last sum from Redis, and this process's additions
 * since. Pure. Times are milliseconds of a monotonic clock, to which Redis's time left is added, so
 * a wall clock that is wrong or corrected does no harm.
 */

export type CounterView = ReturnType<typeof createView>

/** A view of an unknown counter. */
export function createView(windowMs: number) {
  return {
    windowMs,
    /** Whether Redis has ever sent a sum. */
    known: false,
    /** Tokens in the open window by the last sum, without those of the next three. */
    used: 0,
    /** Tokens in the batch in flight. */
    sending: 0,
    /** This process's tokens that are in no batch yet. */
    pending: 0,
    /** The same, of responses that Redis counts unless it has counted them before. */
    reported: 0,
    /** End of the open window; 0 if none is open. */
    endsAt: 0,
    /** When Redis last sent a sum. */
    sumAt: 0,
  }
}

/** Whether a window is open in this view. */
export function isOpen(view: CounterView, now: number): boolean {
  if (view.endsAt === 0) return false
  if (now < view.endsAt) return true
  // Tokens of a window that has ended no longer count, wherever they are.
  view.used = 0
  view.sending = 0
  view.pending = 0
  view.reported = 0
  view.endsAt = 0
  return false
}

/** Tokens of the open window, including those not sent to Redis yet. */
export function usedIn(view: CounterView): number {
  return view.used + unansweredIn(view)
}

/** The part of them that Redis has not acknowledged. */
export function unansweredIn(view: CounterView): number {
  return view.sending + view.pending + view.reported
}

/** Adds this process's tokens. If no window is open, they open one now. */
export function addTokens(view: CounterView, tokens: number, now: number): void {
  if (!isOpen(view, now)) view.endsAt = now + view.windowMs
  view.pending += tokens
}

/** Adds tokens of a response that ended at `endedAt`; a window that they open begins then. */
export function addReported(view: CounterView, tokens: number, now: number, endedAt: number): void {
  if (!isOpen(view, now)) view.endsAt = endedAt + view.windowMs
  view.reported += tokens
}

/** Moves tokens of a response into the batch in flight, or removes those left to the journal. */
export function takeReported(view: CounterView, tokens: number, now: number): void {
  if (!isOpen(view, now)) return
  // Fewer, if they were added to a window that has ended since.
  const taken = Math.min(view.reported, tokens)
  view.reported -= taken
  view.sending += taken
}

/** Moves pending tokens into the batch in flight; returns their number. */
export function takePending(view: CounterView, now: number): number {
  if (!isOpen(view, now)) return 0
  const tokens = view.pending
  view.sending += tokens
  view.pending = 0
  return tokens
}

/**
 * Takes tokens back out of a batch that was never sent, or whose reports are sent again: as
 * pending, or as reported.
 */
export function takeBack(
  view: CounterView,
  tokens: number,
  as: 'pending' | 'reported',
  now: number,
): void {
  if (!isOpen(view, now)) return
  const taken = Math.min(view.sending, tokens)
  view.sending -= taken
  view[as] += taken
}

/** Its window was ended by a reset. Additions that are not acknowledged keep the window in this view. */
export function endWindow(view: CounterView): void {
  view.used = 0
  view.sumAt = Number.NEGATIVE_INFINITY
  view.endsAt = usedIn(view) > 0 ? view.endsAt : 0
}

/**
 * Applies a response of Redis: tokens used and milliseconds left, 0 or less if no window is open
 * there. It includes `acknowledged` tokens of the batch in flight. A slow response makes the
 * window's end late, never early, so it admits nothing extra.
 */
export function takeAnswer(
  view: CounterView,
  answer: { readonly used: number; readonly leftMs: number; readonly acknowledged: number },
  now: number,
): void {
  isOpen(view, now)
  view.known = true
  view.sumAt = now
  view.sending = Math.max(0, view.sending - answer.acknowledged)
  if (answer.leftMs > 0) {
    view.used = answer.used
    // Redis's clock may have stepped back too; no caller waits longer than a window.
    view.endsAt = now + Math.min(answer.leftMs, view.windowMs)
  } else {
    // The window has ended in Redis; additions since then keep the window that they opened here.
    view.used = 0
    if (unansweredIn(view) === 0) view.endsAt = 0
  }
}
