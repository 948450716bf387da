/** Unix sockets to listen on: removes stale ones, and sets their permissions. */

import { once } from 'node:events'
import { chmodSync, lstatSync, rmSync } from 'node:fs'
import { connect } from 'node:net'

/**
 * Removes a socket on which no process listens, for example after a kill. Other files stay, as do
 * sockets in use; listening there then fails.
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

/** `mode` as for chmod: permission to write is permission to connect. */
export function openSocket(path: string, mode: number): void {
  chmodSync(path, mode)
}
