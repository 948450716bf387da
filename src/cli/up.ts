/** `tollgate up`, the command of `npm start`: runs the whole gateway on this machine. */

import { runGateway } from '../../dev/up.ts'
import { checkSettings } from '../wiring/check-settings.ts'
import type { Call } from './command.ts'
import type { upFlags } from './commands/run.ts'
import type { CommandIo } from './terminal.ts'

/** Ends the process itself. */
export async function up(
  { flags }: Call<typeof upFlags>,
  { env }: Pick<CommandIo, 'env'>,
): Promise<number> {
  return await runGateway(env, checkSettings, { isVerbose: flags.verbose })
}
