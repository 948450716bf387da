/** Sends the sums of all hash tags, and detects whether the store responds. */

import type { Part } from './part.ts'
import { createPartSender, type PartSender, type PartSenderOptions } from './part-sender.ts'

export interface PartSendersOptions extends Pick<PartSenderOptions, 'flushMs' | 'monotonic'> {
  /** By tag. */
  readonly parts: ReadonlyMap<string, Part>
  /** Called once per change. */
  readonly onUnavailable: (isUnavailable: boolean, cause: unknown) => void
}

export type PartSenders = ReturnType<typeof createPartSenders>

export function createPartSenders(options: PartSendersOptions) {
  const { parts, flushMs, monotonic, onUnavailable } = options
  const senders = new Map<Part | undefined, PartSender>()
  /** The parts whose last call has failed. */
  const failing = new Set<Part | undefined>()
  for (const part of parts.values()) {
    const onOutcome = (error?: unknown): void => noteOutcome(part, error)
    const sender = createPartSender({ part, flushMs, monotonic, onOutcome })
    senders.set(part, sender)
    part.whenUrgent(() => sender.arm(1))
  }

  /** Reports the outcome of a call. */
  function noteOutcome(part: Part | undefined, error: unknown): void {
    const was = failing.size > 0
    if (error === undefined) failing.delete(part)
    else failing.add(part)
    const isUnavailable = failing.size > 0
    if (isUnavailable !== was) onUnavailable(isUnavailable, error)
  }

  return {
    /** Whether the store does not respond, or can't write. */
    get isUnavailable(): boolean {
      return failing.size > 0
    },
    /** Number of windows that are due. */
    get due(): number {
      let due = 0
      for (const part of parts.values()) due += part.due
      return due
    },
    /** Whether the store does not respond for this part. In a Cluster its nodes can be away one by one. */
    isAway: (part: Part | undefined): boolean => failing.has(part),
    noteOutcome,
    /** Schedules a call of this part, as in part-sender.ts. */
    arm: (part: Part | undefined, intervals: number): void => senders.get(part)?.arm(intervals),
    /** Call it every second. */
    maintain(): void {
      for (const sender of senders.values()) sender.maintain()
    },
    /** Makes a call for each of these parts, by default for all; resolves once each has succeeded or failed. */
    async refresh(wanted: Iterable<Part | undefined> = parts.values()): Promise<void> {
      await Promise.all([...new Set(wanted)].map((part) => senders.get(part)?.refreshed()))
    },
    /** Sends due sums for at most this long (ms), then stops; returns how many windows are left. */
    async stop(graceMs: number): Promise<number> {
      const left = await Promise.all([...senders.values()].map((each) => each.stop(graceMs)))
      return left.reduce((sum, each) => sum + each, 0)
    },
  }
}
