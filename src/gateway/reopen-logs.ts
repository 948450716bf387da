/** Asks Envoy to open its log files anew, after one has been renamed. */

import { askAdmin } from './admin-page.ts'
import type { Address } from './bootstrap.ts'

/** POSTs `/reopen_logs` to Envoy's admin page; rejects when it does not answer, or not with 200. */
export async function reopenLogs(admin: Address): Promise<void> {
  await askAdmin(admin, '/reopen_logs', 'POST')
}
