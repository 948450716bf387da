/** The part of the database that the controller shares with the processes of the service. */

import type { ControllerDatabase } from '../cluster/controller/cluster-controller.ts'
import { watchReports } from '../cluster/in-force/reports.ts'
import { openPool } from '../store/postgres/postgres.ts'

/** Opens its connections; `url` is called for each, as its password may change. */
export function openControllerDatabase(url: () => string) {
  const sql = openPool({ url, connections: 1, applicationName: 'tollgate controller' })
  const database: ControllerDatabase = {
    watchReports: (listener, signal) => watchReports({ ...listener, sql, url, signal }),
  }
  return { database, end: (graceMs?: number) => sql.end(graceMs) }
}
