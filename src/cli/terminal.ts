/** Input and output of commands: at a terminal, or in a test. */

import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'

/** The answer to a question; undefined without a terminal. */
async function ask(question: string): Promise<string | undefined> {
  if (!process.stdin.isTTY) return undefined
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return await lines.question(question)
  } finally {
    lines.close()
  }
}

/** All of standard input; at a terminal one line, which is not echoed. */
async function readHidden(what: string): Promise<string> {
  if (!process.stdin.isTTY) return await text(process.stdin)
  process.stderr.write(`${what} (not shown): `)
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output: nowhere, terminal: true })
  try {
    return await lines.question('')
  } finally {
    lines.close()
    process.stderr.write('\n')
  }
}

/** A command's environment, output by lines, questions and input. */
export interface CommandIo {
  readonly env: NodeJS.ProcessEnv
  readonly out: (line: string) => void
  readonly err: (line: string) => void
  /** The answer to a question; undefined without a terminal. */
  readonly ask: (question: string) => Promise<string | undefined>
  /** All of standard input, not echoed; at a terminal, prompts for `what`. */
  readonly read: (what: string) => Promise<string>
  readonly input: NodeJS.ReadableStream
}

let isWatched = false

/** Lost output, as on a full disk, fails the command; a reader that closes early does not. */
function print(line: string): void {
  if (!isWatched) process.stdout.on('error', reportLoss)
  isWatched = true
  console.log(line)
}

function reportLoss({ code }: NodeJS.ErrnoException): void {
  if (code === 'EPIPE') return
  console.error(`Standard output cannot be written (${code}).`)
  process.exitCode = 1
}

/** The input and output of this process. */
export const terminal: CommandIo = {
  env: process.env,
  out: print,
  err: (line) => console.error(line),
  ask,
  read: readHidden,
  // Created on demand, because standard input may be closed.
  get input() {
    return process.stdin
  },
}

/** Whether the user agrees; without a terminal it returns `isMeant`, and prints how to continue if that is false. */
export async function confirm(
  { ask, err }: Pick<CommandIo, 'ask' | 'err'>,
  question: string,
  isMeant = false,
): Promise<boolean> {
  const answer = await ask(`${question} [y/N] `)
  if (answer === undefined && isMeant) return true
  if (answer === undefined) err('There is no terminal to ask at; repeat the command with --yes.')
  return /^y(es)?$/i.test(answer?.trim() ?? '')
}
