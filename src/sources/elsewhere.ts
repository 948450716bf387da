/** Parses a document that is too long for one slice in a separate thread. */

import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { DocumentContent } from './documents.ts'

const worker = new URL('./document-worker.ts', import.meta.url)

/** Parses it; rejects if the thread ends without a result. */
export async function readElsewhere(text: string): Promise<readonly DocumentContent[]> {
  const thread = new Worker(worker, { workerData: text })
  try {
    const [contents] = await Promise.race([
      once(thread, 'message'),
      once(thread, 'exit').then(() => Promise.reject(new Error('the thread ended'))),
    ])
    return contents
  } finally {
    await thread.terminate()
  }
}
