/** What a person at a terminal is asked. */

import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'

/** The answer to a question; undefined where there is nobody to ask. */
export async function ask(question: string): Promise<string | undefined> {
  if (!process.stdin.isTTY) return undefined
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return await lines.question(question)
  } finally {
    lines.close()
  }
}

/** All of standard input; at a terminal one line, which is not shown as it is typed. */
export async function readHidden(): Promise<string> {
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
