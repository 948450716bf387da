/** `tollgate up`, the command of `npm start`: runs the whole gateway on this machine. */

import { runGateway } from '../local/up.ts'
import { checkSettings } from '../wiring/check-settings.ts'
import { refuseArguments } from './usage.ts'

const usage = `Usage: tollgate up

Runs the whole gateway on this machine: Envoy, the service, Postgres, a sample model server. npm start
runs this command. Settings come from the environment; docs/settings.md lists them. Ctrl-C stops it.`

/** Ends the process itself; returns a status only for arguments, of which there are none. */
export async function up(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  return refuseArguments(args, usage) ?? (await runGateway(env, checkSettings))
}
