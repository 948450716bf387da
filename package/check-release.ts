/** `node package/check-release.ts <tag>`: says what keeps this commit from being released, and fails then. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../src/runtime/package-root.ts'

/** The files of a release, as text. */
export interface Release {
  readonly tag: string
  readonly packageJson: string
  readonly changelog: string
  readonly maintainers: string
}

const place = '<!-- maintainers: one row each below this line -->'

/** Sentences; none: it is ready. */
export function problemsOf({ tag, packageJson, changelog, maintainers }: Release): string[] {
  const problems: string[] = []
  const { version } = JSON.parse(packageJson) as { version: string }
  if (tag !== `v${version}`) problems.push(`The tag ${tag} is not v${version}, of package.json.`)
  if (
    !new RegExp(`^## \\[${version.replaceAll('.', '\\.')}\\] - \\d{4}-\\d\\d-\\d\\d$`, 'm').test(
      changelog,
    )
  ) {
    problems.push(`CHANGELOG.md has no section "## [${version}] - <date>".`)
  }
  const [, below] = maintainers.split(place)
  // The table's header and the line below it are no names.
  const rows = (below ?? '')
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .slice(2)
  if (rows.length === 0) problems.push('MAINTAINERS.md names nobody: fill in the marked place.')
  return problems
}

if (import.meta.main) {
  const read = (name: string) => readFileSync(join(packageRoot, name), 'utf8')
  const problems = problemsOf({
    tag: process.argv[2] ?? '',
    packageJson: read('package.json'),
    changelog: read('CHANGELOG.md'),
    maintainers: read('MAINTAINERS.md'),
  })
  for (const problem of problems) console.error(problem)
  if (problems.length > 0) process.exitCode = 1
}
