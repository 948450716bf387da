import { connect } from 'node:net'
import { json } from 'node:stream/consumers'
import type { Inside } from './probe.ts'

/** What happened in the service since this was last asked. */
export async function readProbe(path: string): Promise<Inside> {
  return (await json(connect(path))) as Inside
}
