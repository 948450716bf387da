/** `node package/release-notes.ts <tag>`: prints what CHANGELOG.md and docs/upgrade.md say of a version. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../src/runtime/package-root.ts'

/** The section of a version, and what changes for whom; undefined: there is no such version. */
export function notesOf(tag: string, changelog: string, upgrade: string): string | undefined {
  const version = tag.replace(/^v/, '').replaceAll('.', '\\.')
  const section = sectionOf(changelog, new RegExp(`^## \\[${version}\\].*$`, 'm'))
  if (section === undefined) return undefined
  const changes = sectionOf(upgrade, /^## What changes for whom$/m)
  return [section, ...(changes === undefined ? [] : ['### What changes for whom', changes])].join(
    '\n\n',
  )
}

function sectionOf(text: string, heading: RegExp): string | undefined {
  const found = heading.exec(text)
  if (found === null) return undefined
  const rest = text.slice(found.index + found[0].length)
  const end = rest.search(/^## /m)
  return rest.slice(0, end < 0 ? undefined : end).trim()
}

if (import.meta.main) {
  const read = (name: string) => readFileSync(join(packageRoot, name), 'utf8')
  const notes = notesOf(process.argv[2] ?? '', read('CHANGELOG.md'), read('docs/upgrade.md'))
  if (notes === undefined) {
    console.error(`CHANGELOG.md has no section of ${process.argv[2]}.`)
    process.exitCode = 1
  } else console.log(notes)
}
