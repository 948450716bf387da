import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../src/store/postgres/embedded-postgres.ts'

/**
 * A server for the databases of tests. A crash may take what it holds: syncing to the disk is most of
 * what it costs to create and drop a database.
 */
export function startTestPostgres(directory: string): Promise<EmbeddedPostgres> {
  const settings = { fsync: 'off', full_page_writes: 'off', max_connections: 400 }
  return startEmbeddedPostgres({ directory, log() {}, settings })
}
