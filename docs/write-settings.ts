/** `npm run settings`: writes docs/settings.md from the table of settings; a test checks that it is so. */

import { writeFileSync } from 'node:fs'
import { settingsTable } from '../src/settings/show.ts'

const head = `# Settings

Settings are environment variables; \`tollgate serve --help\` lists them too. A bad value stops the
start. The message names every bad one at once, files and folders that cannot be used included. An
empty value is as good as none. Each can come by file: \`DATABASE_URL_FILE=/run/secrets/url\` for
\`DATABASE_URL\`. An address without a host means every interface, and port 0 any free port.

\`DATABASE_URL_FILE\` and \`REDIS_URL_FILE\` are read again for each connection: to change a password,
replace the file and then the password, or the other way round; no restart is needed. Until both are
changed new connections are refused, which is an outage like any other.

**A start that cannot go on** ends with status 1 and one sentence, which begins with the setting's name
and goes on in the words of the server or the driver. What Postgres or Redis refuses (password, user,
database, TLS) and a certificate that is not believed end it at once: waiting would change nothing. A
Postgres that is not there yet (connection refused, no such host, starting, too many connections) is
waited for, for 30 seconds; the reason is in the log at once and every 5 seconds. A Redis that is not
there is waited for for two seconds; the service then starts without it (\`degraded\` in \`/readyz\`).
\`/livez\` answers from the first moment, \`/readyz\` 503 until all is ready, and SIGTERM ends a start that
waits at once.
`

/** The page as it is kept in the repository. */
export function renderSettings(): string {
  return `${head}\n${settingsTable()}\n`
}

if (import.meta.main) writeFileSync(new URL('./settings.md', import.meta.url), renderSettings())
