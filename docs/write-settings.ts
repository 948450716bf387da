/**
 * `npm run settings`: writes docs/settings.md from the table of settings; a test checks that it is
 * up to date.
 */

import { writeFileSync } from 'node:fs'
import { allSettings, defaultOf } from '../src/settings/show.ts'

const head = `# Settings

Settings are environment variables. \`tollgate serve --help\` lists them too. An invalid value prevents the start;
the message names all invalid values at once, including files and folders that cannot be used. An empty value
counts as unset. Every setting can be read from a file: \`DATABASE_URL_FILE=/run/secrets/url\` for
\`DATABASE_URL\`. An address without a host means all IPv4
addresses of the machine, \`[::]:8000\` those of IPv4 and IPv6 (of IPv4 if the kernel has no IPv6), and port 0 any free port, except where an
Envoy of your own has to know it; the log and \`npm start -- --verbose\` say which.

\`DATABASE_URL_FILE\` and \`REDIS_URL_FILE\` are read again for each new connection, the latter for user and password
alone: another address of Redis needs a restart. To change a password, replace the file and change the password, in
either order; no restart is needed. Until both are changed, new connections fail, with the same effect as an outage.

**If a start fails**, the process exits with status 1 and one sentence that begins with the name of the setting,
followed by the error of the server or the driver. If Postgres or Redis rejects the connection (password, user,
database, TLS), or a certificate is not trusted, the process exits at once. If Postgres is not available yet
(connection refused, unknown host, starting up, too many connections, no answer), the process waits up to 30 seconds and logs
the reason at once and every 5 seconds. If Redis is not available, it waits two seconds and starts without it
(\`degraded\` in \`/readyz\`). Meanwhile \`/livez\` answers 200 and \`/readyz\` 503, and SIGTERM ends the start
at once.

**Exports to an OpenTelemetry collector** have the variables of its specification, \`OTEL_…\`: [tracing.md](tracing.md).
\`KUBERNETES_SERVICE_HOST\` and \`KUBERNETES_SERVICE_PORT\`, which the cluster sets in each pod, say where its API server is; outside of a pod
\`KUBECONFIG\` names the file that does, as for \`kubectl\`.
`

/** The page as it is committed. */
export function renderSettings(): string {
  const rows = allSettings.map((setting) => {
    const { name, reader, meaning } = setting
    const cells = [`\`${name}\``, defaultOf(setting), reader.form, meaning]
    return `| ${cells.join(' | ')} |`
  })
  const table = ['| variable | default | value | meaning |', '|---|---|---|---|', ...rows]
  return `${head}\n${table.join('\n')}\n`
}

if (import.meta.main) writeFileSync(new URL('./settings.md', import.meta.url), renderSettings())
