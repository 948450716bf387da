/** The audit trail: what was meant and what came of it, a JSON line each. */

import { ServiceError } from '../core/errors.ts'
import { type AuditEvent, toLine } from './event.ts'
import type { AuditSink } from './file.ts'

export interface AuditTrail {
  /** Writes a line of what has happened; whether it is there. Never rejects. */
  note(event: AuditEvent): Promise<boolean>
  /**
   * Writes a line without which the event must not happen, where the trail is required. Rejects with
   * `audit_unavailable` then.
   */
  require(event: AuditEvent): Promise<void>
  /** Lines that could not be written. */
  readonly lost: number
}

export interface AuditTrailOptions {
  readonly sink: AuditSink
  /** Whether an action is refused that the trail cannot have. */
  readonly required: boolean
  readonly replica: string
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Told when the first line is lost, and when one is written again. */
  readonly onChange?: (isWritten: boolean) => void
}

export function createAuditTrail(options: AuditTrailOptions): AuditTrail {
  const { sink, required, replica, clock, onChange = () => {} } = options
  let lost = 0
  let isWritten = true

  async function note(event: AuditEvent): Promise<boolean> {
    const written = await sink.write(toLine(event, replica, clock()))
    if (!written) lost += 1
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
  }
}

/** A trail that keeps nothing, and never lacks a line. */
export const noTrail: AuditTrail = {
  note: async () => true,
  require: async () => {},
  lost: 0,
}
