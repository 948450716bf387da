/** Notices in Postgres, which records each exactly once, however many processes see its cause. */

import { digest128 } from '../../formats/bounded-text.ts'
import { withLongDeadline } from '../../store/postgres/postgres.ts'
import { epochMs, type Query, type Sql } from '../../store/postgres/sql.ts'
import type { DueNotice, ExpiringKey, Notice } from './store.ts'

export type NoticeStore = ReturnType<typeof createNoticeStore>

/** Every method throws `store_unavailable` if the database is unavailable. */
export function createNoticeStore(sql: Sql) {
  return {
    /** Records notices, except those that are recorded already. */
    async add(notices: readonly Notice[]): Promise<void> {
      if (notices.length === 0) return
      const rows = new Map(
        notices.map(({ subject, ...notice }) => {
          // For a key this is the digest that `expiring` computes.
          const row = { ...notice, subject: digest128(subject) }
          return [`${row.subject} ${row.percent}`, row]
        }),
      )
      await withLongDeadline(sql`
        insert into tollgate_notices as kept (subject, percent, ends_at, body)
        select subject, percent, to_timestamp("endsAt" / 1000), body
        from json_to_recordset(${JSON.stringify([...rows.values()])}::json) as row (
          subject uuid, percent int, "endsAt" float8, "windowMs" float8, body text)
        order by subject, percent
        on conflict (subject, percent) do update set ends_at = excluded.ends_at, id = excluded.id,
          body = excluded.body, created_at = now(), attempts = 0, due_at = now()
        -- Processes differ by milliseconds in the end of a window; the next one ends a window later.
        where excluded.ends_at > kept.ends_at + make_interval(secs => (
          select max("windowMs") / 2000 from json_to_recordset(
            ${JSON.stringify([...rows.values()])}::json) as row (subject uuid, "windowMs" float8)
          where row.subject = kept.subject))`)
    },
    /** Takes at most `max` due notices for `leaseMs`, after which they are due again. */
    take: async (max: number, leaseMs: number): Promise<readonly DueNotice[]> =>
      await withLongDeadline(sql<DueNotice[]>`
        update tollgate_notices set attempts = attempts + 1,
          due_at = now() + make_interval(secs => ${leaseMs / 1_000}::float8)
        where id in (
          select id from tollgate_notices where due_at <= now() order by due_at limit ${max}
          for update skip locked)
        returning id, body, attempts as attempt,
          (extract(epoch from now() - created_at) * 1000)::float8 as "ageMs"`),
    /** Marks a notice as sent or abandoned. */
    async finish(id: string): Promise<void> {
      await withLongDeadline(sql`update tollgate_notices set due_at = null where id = ${id}`)
    },
    /** Makes a notice due again after this time in milliseconds. */
    async postpone(id: string, ms: number): Promise<void> {
      await withLongDeadline(sql`
        update tollgate_notices set due_at = now() + make_interval(secs => ${ms / 1_000}::float8)
        where id = ${id}`)
    },
    /** Deletes finished notices a day after the end of their window or key. */
    async tidy(): Promise<void> {
      await withLongDeadline(sql`
        delete from tollgate_notices where due_at is null and ends_at < now() - interval '1 day'`)
    },
    /** Active keys, at most `max`, with a tenth of their life left, at most a week, and no notice. */
    expiring: async (max: number): Promise<readonly ExpiringKey[]> =>
      await withLongDeadline(expiringKeys(sql, max)),
  }
}

/** Keys that expire soon and have no notice yet: the first key of each user, then the second, and so on. */
export function expiringKeys(sql: Sql, max: number): Query<ExpiringKey[]> {
  return sql<ExpiringKey[]>`
    select id, name, username as user, subscription,
      ${epochMs(sql, 'expires_at')} as "expiresAt"
    from (select *, row_number() over (partition by username order by expires_at, id) as turn
    from api_keys
    where status = 'active' and not ephemeral and expires_at > now()
      -- Implied by the next condition, but an index can use it.
      and expires_at <= now() + interval '7 days'
      and expires_at <= now() + (expires_at - greatest(created_at, '0100-01-01')) / 10
      and not exists (
        select 1 from tollgate_notices as kept
        where kept.ends_at > expires_at - interval '1 second' and kept.subject = encode(
          substr(sha256(convert_to('key ' || api_keys.id, 'UTF8')), 1, 16), 'hex')::uuid)
    ) as due order by turn, expires_at limit ${max}`
}
