import type { Test } from 'tap'
import type { ControllerDatabase } from '../../../src/cluster/controller/cluster-controller.ts'
import { openControllerDatabase } from '../../../src/wiring/controller-process.ts'

/** This database, for a controller; its connection ends with `t`. */
export function controllerDatabase(t: Test, url: string): ControllerDatabase {
  const { database, end } = openControllerDatabase(() => url)
  t.teardown(() => end())
  return database
}
