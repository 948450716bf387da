/** Starts and controls the load generator's process. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { StartError } from '../../../src/runtime/start-error.ts'
import type { LoadResult, Plan } from './plan.ts'

export type Load = ReturnType<typeof startLoad>

export function startLoad() {
  const child: ChildProcess = fork(new URL('./process.ts', import.meta.url), { execArgv: [] })
  const gone = once(child, 'exit')
  return {
    /** Executes one run at a time. Rejects with a StartError if the server cannot be reached. */
    async run(plan: Plan): Promise<LoadResult> {
      child.send(plan)
      const ended = gone.then(() => {
        throw new StartError('The process that makes the load has ended.')
      })
      const [message] = (await Promise.race([once(child, 'message'), ended])) as [
        { readonly result: LoadResult } | { readonly problem: string },
      ]
      if ('result' in message) return message.result
      throw new StartError(`${plan.url} cannot be reached: ${message.problem}.`)
    },
    async stop(): Promise<void> {
      child.kill('SIGKILL')
      await gone
    },
  }
}
