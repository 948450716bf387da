import { once } from 'node:events'
import { connect } from 'node:net'

/** Whether a process accepts connections at this address. */
export async function isListening(host: string, port: number): Promise<boolean> {
  const socket = connect(port, host)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
