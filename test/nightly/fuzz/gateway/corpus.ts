/**
 * The requests from which cases are generated, and those that once found a bug: the files of
 * `corpus`. In a head with plain line ends, each stands for CRLF. `{{lane}}` is the model's
 * namespace, `{{key}}` the credential, `{{length}}` the length of the body. `name.pieces.http` and
 * `name.http2.http` are sent in this way.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../../../src/runtime/package-root.ts'
import { type Draft, render, type Transport } from './draft.ts'

export interface CorpusEntry {
  readonly name: string
  readonly transport: Transport
  /** The request for this lane, without credential and length. */
  bytes(lane: string): Buffer
}

const folder = join(packageRoot, 'test', 'nightly', 'fuzz', 'gateway', 'corpus')

export function readCorpus(): readonly CorpusEntry[] {
  const files = readdirSync(folder).filter((file) => file.endsWith('.http'))
  return files.sort().map((file) => {
    const text = withLineEnds(readFileSync(join(folder, file)).toString('latin1'))
    const transport = /\.(pieces|http2)\.http$/.exec(file)?.[1] as Transport | undefined
    return {
      name: file.replace(/\.http$/, ''),
      transport: transport ?? 'whole',
      bytes: (lane) => Buffer.from(text.replaceAll('{{lane}}', lane), 'latin1'),
    }
  })
}

function withLineEnds(text: string): string {
  if (text.includes('\r\n')) return text
  const end = text.indexOf('\n\n')
  return `${text.slice(0, end).replaceAll('\n', '\r\n')}\r\n\r\n${text.slice(end + 2)}`
}

/** Writes a find into the corpus for later runs. Returns the file's name. */
export function keep(draft: Draft, lane: string, title: string): string {
  const bytes = render(draft, '{{key}}').toString('latin1').replaceAll(lane, '{{lane}}')
  const mark = createHash('sha256').update(bytes).digest('hex').slice(0, 8)
  const way = draft.transport === 'whole' ? '' : `.${draft.transport}`
  const file = `found-${title}-${mark}${way}.http`
  writeFileSync(join(folder, file), Buffer.from(bytes, 'latin1'))
  return file
}
