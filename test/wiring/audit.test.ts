import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import type { AuditEvent } from '../../src/audit/event.ts'
import { noTrail } from '../../src/audit/trail.ts'
import { type Stop, stopInOrder } from '../../src/runtime/shutdown.ts'
import { auditServiceLifetime, openAudit } from '../../src/wiring/audit.ts'
import type { Context } from '../../src/wiring/context.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a disk that takes the last entry slowly is no fault of the shutdown', async (t) => {
  const stops: Stop[] = []
  const noted: string[] = []
  const audit = {
    ...noTrail,
    async note({ action }: AuditEvent) {
      noted.push(action)
      await delay(noted.length === 1 ? 0 : 300)
      return true
    },
  }
  await auditServiceLifetime({ audit, stops } as unknown as Context)
  const errors: unknown[] = []
  t.equal(
    await stopInOrder(stops, { log: { error: (entry: unknown) => errors.push(entry) } }),
    true,
  )
  t.strictSame(errors, [])
  t.strictSame(noted, ['service.start', 'service.stop'])
})

test('the log says why an entry is lost', async (t) => {
  const missing = join(temporaryFolder(t), 'missing')
  const config = {
    auditLog: join(missing, 'audit.jsonl'),
    auditRequired: false,
    replicaName: 'one',
  }
  const stops: Stop[] = []
  const entries: Record<string, unknown>[] = []
  const log = { error: (entry: Record<string, unknown>) => entries.push(entry) }
  const audit = openAudit({ config, log, clock: Date.now, stops } as unknown as Context)
  rmSync(missing, { recursive: true, force: true })
  await auditServiceLifetime({ audit, stops } as unknown as Context)
  t.match(entries, [{ code: 'audit_failing', cause: /ENOENT.*missing/ }])
  await stopInOrder(stops, { log })
})
