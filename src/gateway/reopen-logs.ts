/** Makes Envoy reopen its log files after one has been renamed. */

import type { Address } from '../core/formats/address.ts'
import { askAdmin } from './admin-page.ts'

/** POSTs `/reopen_logs` to Envoy's admin page; rejects if it does not respond, or not with 200. */
export async function reopenLogs(admin: Address): Promise<void> {
  await askAdmin(admin, '/reopen_logs', 'POST')
}
