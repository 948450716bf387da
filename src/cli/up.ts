/** `tollgate up`, the command of `npm start`: runs the whole gateway on this machine. */

import { runGateway } from '../../dev/up.ts'
import { checkSettings } from '../wiring/check-settings.ts'
import type { Run } from './command.ts'
import type { upFlags } from './commands/run.ts'
import { printableLines } from './output.ts'

/** Ends the process itself. */
export const up: Run<typeof upFlags> = async ({ flags }, { env }) => {
  return await runGateway(env, checkSettings, {
    isVerbose: flags.verbose,
    show: printableLines,
  })
}
