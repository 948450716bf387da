/** `npm run settings`: writes docs/settings.md from the table of settings; a test checks that it is so. */

import { writeFileSync } from 'node:fs'
import { settingsTable } from '../src/settings/show.ts'

const head = `# Settings

Settings are environment variables; \`tollgate serve --help\` lists them too. A bad value stops the
start. The message names every bad one at once, files and folders that cannot be used included. An
empty value is as good as none. Each can come by file: \`DATABASE_URL_FILE=/run/secrets/url\` for
\`DATABASE_URL\`. An address without a host means every interface, and port 0 any free port.
`

/** The page as it is kept in the repository. */
export function renderSettings(): string {
  return `${head}\n${settingsTable()}\n`
}

if (import.meta.main) writeFileSync(new URL('./settings.md', import.meta.url), renderSettings())
