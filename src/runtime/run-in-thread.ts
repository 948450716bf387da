/** Runs work that would block the event loop in a separate thread. */

import { once } from 'node:events'
import { Worker, type WorkerOptions } from 'node:worker_threads'

/**
 * Starts the file with this data in a thread, and resolves to the first message that it posts; the thread ends then.
 * Rejects if it fails, ends without a message, or `signal` aborts.
 */
export async function runInThread<Message>(
  file: URL,
  workerData: unknown,
  {
    signal,
    ...limits
  }: Pick<WorkerOptions, 'resourceLimits'> & { readonly signal?: AbortSignal } = {},
): Promise<Message> {
  const thread = new Worker(file, { workerData, ...limits })
  try {
    const [message] = await Promise.race([
      once(thread, 'message', { signal }),
      once(thread, 'exit').then(() => Promise.reject(new Error('the thread ended'))),
    ])
    return message
  } finally {
    await thread.terminate()
  }
}
