/** Runs commands in this process. */

import { Readable } from 'node:stream'
import { runCommand } from '../../src/cli/run-command.ts'

export interface Terminal {
  readonly env?: NodeJS.ProcessEnv
  /** The user's answer to each question; without a terminal if undefined. */
  readonly answer?: string | undefined
  /** Standard input. */
  readonly input?: string
}

/** Runs a command; returns the exit status, the output, and the questions. All settings come from `env`. */
export async function runAt({ env = {}, answer, input = '' }: Terminal, ...args: string[]) {
  const [out, err, asked]: [string[], string[], string[]] = [[], [], []]
  const status = await runCommand(args, {
    // Independent of the user who runs the tests.
    env: { XDG_CONFIG_HOME: '/nonexistent', ...env },
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
    async ask(question) {
      asked.push(question)
      return answer
    },
    read: async () => input,
    input: Readable.from([input]),
  })
  return { status, out: out.join('\n'), err: err.join('\n'), asked }
}
