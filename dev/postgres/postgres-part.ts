import { signal } from '../run-records.ts'
import type { SupervisedPart } from '../supervisor.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts'

/** The embedded Postgres of a folder as a supervised process. It keeps its port, which its clients know. */
export function createPostgresPart(directory: string, log: (line: string) => void) {
  let running: EmbeddedPostgres | undefined
  const part: SupervisedPart = {
    name: 'Postgres',
    async spawn() {
      const port = running && { port: running.port }
      const server = await startEmbeddedPostgres({ directory, log, ...port })
      running = server
      return { ...server, kill: () => signal(server.pid, 'SIGKILL') }
    },
    async ready() {},
  }
  return {
    part,
    /** Its URL, once it has started. Contains the password, so never log it. */
    url: () => running?.url,
  }
}
