/** Sends the sums of all hash tags, and detects whether the store responds. */

import type { Partition } from './partition.ts'
import {
  createPartitionSender,
  type PartitionSender,
  type SenderOptions,
} from './partition-sender.ts'

export interface SendersOptions extends Pick<SenderOptions, 'flushMs' | 'monotonic'> {
  /** By tag. */
  readonly partitions: ReadonlyMap<string, Partition>
  /** Called once per change. */
  readonly onUnavailable: (isUnavailable: boolean, cause: unknown) => void
}

export type PartitionSenders = ReturnType<typeof createPartitionSenders>

export function createPartitionSenders(options: SendersOptions) {
  const { partitions, flushMs, monotonic, onUnavailable } = options
  const senders = new Map<Partition | undefined, PartitionSender>()
  /** The partitions whose last call has failed. */
  const failing = new Set<Partition | undefined>()
  for (const partition of partitions.values()) {
    const onOutcome = (error?: unknown): void => noteOutcome(partition, error)
    const sender = createPartitionSender({ partition, flushMs, monotonic, onOutcome })
    senders.set(partition, sender)
    partition.whenUrgent(() => sender.arm(1))
  }

  /** Reports the outcome of a call. */
  function noteOutcome(partition: Partition | undefined, error: unknown): void {
    const was = failing.size > 0
    if (error === undefined) failing.delete(partition)
    else failing.add(partition)
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
      for (const partition of partitions.values()) due += partition.due
      return due
    },
    /** Whether the store does not respond for this partition. In a Cluster its nodes can be away one by one. */
    isAway: (partition: Partition | undefined): boolean => failing.has(partition),
    noteOutcome,
    /** Schedules a call of this partition, as in partition-sender.ts. */
    arm: (of: Partition | undefined, intervals: number) => senders.get(of)?.arm(intervals),
    /** Call it every second. */
    maintain(): void {
      for (const sender of senders.values()) sender.maintain()
    },
    /** Makes a call for each of these partitions, by default for all; resolves once each has succeeded or failed. */
    async refresh(wanted: Iterable<Partition | undefined> = partitions.values()): Promise<void> {
      await Promise.all([...new Set(wanted)].map((each) => senders.get(each)?.refreshed()))
    },
    /** Sends due sums for at most this long (ms), then stops; returns how many windows are left. */
    async stop(graceMs: number): Promise<number> {
      const left = await Promise.all([...senders.values()].map((each) => each.stop(graceMs)))
      return left.reduce((sum, each) => sum + each, 0)
    },
  }
}
