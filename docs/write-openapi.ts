/**
 * `npm run openapi`: writes docs/openapi.json from the route schemas; a test checks that it is up
 * to date.
 */

import { writeFileSync } from 'node:fs'
import { pino } from 'pino'
import { type AdminDeps, buildAdmin } from '../src/admin/server.ts'

/** The document as it is committed. Calls no dependency: only schemas are read. */
export async function renderOpenapi(): Promise<string> {
  const app = buildAdmin({ log: pino({ level: 'silent' }) } as unknown as AdminDeps)
  await app.ready()
  const { body } = await app.inject('/openapi.json')
  await app.close()
  return `${JSON.stringify(JSON.parse(body), null, 2)}\n`
}

if (import.meta.main) {
  writeFileSync(new URL('./openapi.json', import.meta.url), await renderOpenapi())
}
