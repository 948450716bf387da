/**
 * `npm run envoy`: copies the scripts of lua/ into bootstrap.yaml, so that the file is complete.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const bootstrap = fileURLToPath(new URL('bootstrap.yaml', import.meta.url))

/** A comment that names a script, and the block below it for its text. */
const block = /^( *)# envoy\/(lua\/[a-z-]+\.lua)\n +inline_string: \|\n(?:\1 {2}.*\n|\n)*/gm

/** The configuration with the current scripts. */
export function withScripts(text: string): string {
  return text.replace(block, (_, indent: string, file: string) => {
    const lines = readFileSync(new URL(file, import.meta.url), 'utf8')
      .trimEnd()
      .split('\n')
    const script = lines.map((line) => (line === '' ? '' : `${indent}  ${line}`))
    return [`${indent}# envoy/${file}`, `${indent}inline_string: |`, ...script, '', ''].join('\n')
  })
}

if (import.meta.main) writeFileSync(bootstrap, withScripts(readFileSync(bootstrap, 'utf8')))
