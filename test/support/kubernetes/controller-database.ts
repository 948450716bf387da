import type { Test } from 'tap'
import type { ControllerDatabase } from '../../../src/controller/cluster-controller.ts'
import { watchReports } from '../../../src/store/in-force/reports.ts'
import { openPool } from '../../../src/store/postgres/postgres.ts'
import { createServedNamesStore } from '../../../src/store/served-names.ts'

/** This database, for a controller; its connection ends with `t`. */
export function controllerDatabase(t: Test, url: string): ControllerDatabase {
  const sql = openPool({ url: () => url, connections: 1, applicationName: 'tollgate controller' })
  t.teardown(() => sql.end())
  return {
    watchReports: (listener, signal) => watchReports({ ...listener, sql, url: () => url, signal }),
    servedNames: createServedNamesStore(sql),
  }
}
