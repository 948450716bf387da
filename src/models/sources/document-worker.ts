/** Runs in a thread of its own: parses the text or the object that it receives and returns the result. */

import { parentPort, workerData } from 'node:worker_threads'
import { parseObjectResource, parsePart } from './documents.ts'

parentPort?.postMessage(
  typeof workerData === 'string' ? parsePart(workerData) : parseObjectResource(workerData),
)
