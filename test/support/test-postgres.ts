import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../dev/postgres/embedded-postgres.ts'

/**
 * A server for the databases of tests. Its data need not survive a crash: syncing to disk is most
 * of the cost of creating and dropping a database.
 */
export function startTestPostgres(directory: string): Promise<EmbeddedPostgres> {
  const settings = {
    fsync: 'off',
    full_page_writes: 'off',
    max_wal_size: '128MB',
    max_connections: 400,
    // In its folder, so that a killed run leaves nothing elsewhere in memory.
    dynamic_shared_memory_type: 'mmap',
  }
  return startEmbeddedPostgres({ directory, log() {}, settings })
}
