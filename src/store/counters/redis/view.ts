/**
 * What one process knows of a shared counter: what Redis last told, and what this process has
 * added since. Pure; times are milliseconds of a clock that never steps, into which the time left
 * that Redis tells is carried: a wall clock that is minutes off, or corrected, does no harm.
 */

export type CounterView = ReturnType<typeof createView>

/** A counter of which nothing is known. */
export function createView(windowMs: number) {
  return {
    windowMs,
    /** Whether Redis has ever told. */
    known: false,
    /** Tokens in the open window as Redis last told, without those of the next three. */
    used: 0,
    /** Tokens in the batch that is under way. */
    sending: 0,
    /** Tokens of this process that no batch holds yet. */
    pending: 0,
    /** The same, of responses that Redis counts unless it has counted them before. */
    reported: 0,
    /** End of the open window; 0 when none is open. */
    endsAt: 0,
    /** When Redis last told. */
    toldAt: 0,
  }
}

/** Whether a window is open, as far as this process knows. */
export function isOpen(view: CounterView, now: number): boolean {
  if (view.endsAt === 0) return false
  if (now < view.endsAt) return true
  // Tokens of a window that has ended count for nothing any more, wherever they are.
  view.used = 0
  view.sending = 0
  view.pending = 0
  view.reported = 0
  view.endsAt = 0
  return false
}

/** Tokens of the open window, those included that Redis has not been told yet. */
export function usedIn(view: CounterView): number {
  return view.used + unansweredIn(view)
}

/** Those of them that Redis has not answered for. */
export function unansweredIn(view: CounterView): number {
  return view.sending + view.pending + view.reported
}

/** Counts tokens of this process. The first ones in a closed window open it, here and now. */
export function addTokens(view: CounterView, tokens: number, now: number): void {
  if (!isOpen(view, now)) view.endsAt = now + view.windowMs
  view.pending += tokens
}

/** Counts tokens of a response that ended at `endedAt`: a window that they open began then. */
export function addReported(view: CounterView, tokens: number, now: number, endedAt: number): void {
  if (!isOpen(view, now)) view.endsAt = endedAt + view.windowMs
  view.reported += tokens
}

/** Moves tokens of a response into the batch under way, or of one that is left to the journal. */
export function takeReported(view: CounterView, tokens: number, now: number): void {
  if (!isOpen(view, now)) return
  // Fewer, where they were added to a window that has ended since.
  const taken = Math.min(view.reported, tokens)
  view.reported -= taken
  view.sending += taken
}

/** Moves what is pending into the batch under way; answers its tokens. */
export function takePending(view: CounterView, now: number): number {
  if (!isOpen(view, now)) return 0
  const tokens = view.pending
  view.sending += tokens
  view.pending = 0
  return tokens
}

/**
 * Takes tokens back out of a batch that was never sent, or whose reports are to be sent again:
 * as pending, or as reported.
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

/**
 * Takes Redis's answer: tokens used and milliseconds left, 0 or less when no window is open there.
 * `acknowledged`: so many tokens of the batch under way are in it. An answer that was long on its
 * way makes the window's end late, never early: nothing is let through for that.
 */
export function takeAnswer(
  view: CounterView,
  answer: { readonly used: number; readonly leftMs: number; readonly acknowledged: number },
  now: number,
): void {
  isOpen(view, now)
  view.known = true
  view.toldAt = now
  view.sending = Math.max(0, view.sending - answer.acknowledged)
  if (answer.leftMs > 0) {
    view.used = answer.used
    // Redis's clock may have stepped back too; nobody is told to wait longer than a window.
    view.endsAt = now + Math.min(answer.leftMs, view.windowMs)
  } else {
    // Closed over there; what was added here since keeps the window that it opened here.
    view.used = 0
    if (unansweredIn(view) === 0) view.endsAt = 0
  }
}
