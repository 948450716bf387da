/** `tollgate up`, the command of `npm start`: runs the whole gateway on this machine. */

import { runGateway } from '../local/up.ts'
import { checkSettings } from '../wiring/check-settings.ts'
import { refuseArguments } from './usage.ts'

const usage = `Usage: tollgate up [--verbose]

Runs the whole gateway on this machine: Envoy, the service, Postgres, and a sample model server if the
resources name it. npm start runs this command. Settings come from the environment; docs/settings.md lists
them. Only GATEWAY_ADDRESS has to be free: what has no address of its own listens on sockets and free ports,
which DATA_DIR/run/addresses.json lists. Ctrl-C stops it.

  --verbose   prints every address`

const verbose = '--verbose'

/** Ends the process itself; returns a status only for arguments that are wrong, or ask for help. */
export async function up(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const others = args.filter((arg) => arg !== verbose)
  const isVerbose = others.length < args.length
  return refuseArguments(others, usage) ?? (await runGateway(env, checkSettings, { isVerbose }))
}
