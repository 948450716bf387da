/** Up to where each usage journal is archived, in Postgres. */

import { withLongDeadline } from '../../../store/postgres/postgres.ts'
import type { Sql } from '../../../store/postgres/sql.ts'
import type { ArchiveHead, ArchiveHeads } from '../../store.ts'

/** Every method throws `store_unavailable` if the database is unavailable. */
export function createArchiveHeads(sql: Sql): ArchiveHeads {
  return {
    async open(journal) {
      const [found] = await withLongDeadline(sql<ArchiveHead[]>`
        insert into tollgate_usage_archives as kept (journal) values (${journal})
        on conflict (journal) do update set journal = kept.journal
        returning piece::float8 as piece, hash, places`)
      return found as ArchiveHead
    },
    async move(journal, { piece, hash, places }) {
      const moved = await withLongDeadline(sql`
        update tollgate_usage_archives set piece = ${piece}::bigint, hash = ${hash},
          places = ${JSON.stringify(places)}::jsonb, archived_at = now()
        where journal = ${journal} and piece = ${piece - 1}::bigint
        returning 1`)
      return moved.length === 1
    },
  }
}
