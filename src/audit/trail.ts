/** The audit trail: intents and outcomes, one JSON line each. */

import { ServiceError } from '../formats/errors.ts'
import { type AuditEvent, toLine } from './event.ts'
import type { AuditSink } from './file.ts'

export interface AuditTrail {
  /** Writes a line about something that has happened; returns whether it was written in time. Never rejects. */
  note(event: AuditEvent): Promise<boolean>
  /**
   * Writes a line that must precede its event if the trail is required; then rejects with
   * `audit_unavailable` if that fails.
   */
  require(event: AuditEvent): Promise<void>
  /** Lines that could not be written. */
  readonly lost: number
  /** Whether the last line was not written in time. */
  readonly isFailing: boolean
}

interface AuditTrailOptions {
  readonly sink: AuditSink
  /** Whether an action is refused if it cannot be recorded. */
  readonly required: boolean
  readonly replica: string
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Called when the first line is late or lost, and when lines are written again. */
  readonly onChange?: (isWritten: boolean) => void
}

export function createAuditTrail(options: AuditTrailOptions): AuditTrail {
  const { sink, required, replica, clock, onChange = () => {} } = options
  let lost = 0
  let isWritten = true

  async function note(event: AuditEvent): Promise<boolean> {
    const written = await sink.write(toLine(event, replica, clock()), () => {
      lost += 1
    })
    if (written !== isWritten) onChange(written)
    isWritten = written
    return written
  }

  return {
    note,
    async require(event) {
      const written = await note(event)
      if (!written && required) throw new ServiceError('audit_unavailable')
    },
    get lost() {
      return lost
    },
    get isFailing() {
      return !isWritten
    },
  }
}

/** A trail that stores nothing and never fails. */
export const noTrail: AuditTrail = {
  note: async () => true,
  require: async () => {},
  lost: 0,
  isFailing: false,
}
