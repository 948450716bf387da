/** Parses a document that is too long for one slice in a separate thread. */

import { askThread } from '../../runtime/ask-thread.ts'
import type { DocumentContent } from './documents.ts'

const worker = new URL('./document-worker.ts', import.meta.url)

/** Parses it; rejects if the thread ends without a result. */
export function readElsewhere(text: string): Promise<readonly DocumentContent[]> {
  return askThread(worker, text)
}
