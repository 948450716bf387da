/** What commands print, ask and read: at a terminal, or in a test. */

import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'

/** The answer to a question; undefined where there is nobody to ask. */
async function ask(question: string): Promise<string | undefined> {
  if (!process.stdin.isTTY) return undefined
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return await lines.question(question)
  } finally {
    lines.close()
  }
}

/** All of standard input; at a terminal one line, which is not shown as it is typed. */
async function readHidden(): Promise<string> {
  if (!process.stdin.isTTY) return await text(process.stdin)
  process.stderr.write('Key (not shown): ')
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output: nowhere, terminal: true })
  try {
    return await lines.question('')
  } finally {
    lines.close()
    process.stderr.write('\n')
  }
}

/** What a command takes its settings from, prints to a line at a time, asks and reads. */
export interface CommandIo {
  readonly env: NodeJS.ProcessEnv
  readonly out: (line: string) => void
  readonly err: (line: string) => void
  /** The answer to a question; undefined where there is nobody to ask. */
  readonly ask: (question: string) => Promise<string | undefined>
  /** All of standard input; what is typed there is not shown. */
  readonly read: () => Promise<string>
  readonly input: NodeJS.ReadableStream
}

/** Those of this process. */
export const terminal: CommandIo = {
  env: process.env,
  out: (line) => console.log(line),
  err: (line) => console.error(line),
  ask,
  read: readHidden,
  // Only made where it is read: standard input may be closed.
  get input() {
    return process.stdin
  },
}

/** Whether the answer is yes; says how to go on where there is nobody to ask. */
export async function agrees({ ask, err }: Pick<CommandIo, 'ask' | 'err'>, question: string) {
  const answer = await ask(`${question} [y/N] `)
  if (answer === undefined) err('There is nobody to ask; repeat it with --yes.')
  return /^y(es)?$/i.test(answer?.trim() ?? '')
}
