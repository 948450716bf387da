/** Unix sockets that we listen on: one left over is removed, and others than the owner may use it. */

import { once } from 'node:events'
import { chmodSync, lstatSync, rmSync } from 'node:fs'
import { connect } from 'node:net'

/**
 * Removes a socket on which nobody listens, as of a process that was killed. What is no socket stays,
 * and so does one on which somebody listens; to listen there then fails.
 */
export async function removeStaleSocket(path: string): Promise<void> {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isSocket()) return
  const socket = connect(path)
  try {
    await once(socket, 'connect')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') rmSync(path, { force: true })
  } finally {
    socket.destroy()
  }
}

/** `mode` as chmod takes it: who may write may connect. */
export function openSocket(path: string, mode: number): void {
  chmodSync(path, mode)
}
