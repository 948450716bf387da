/** Runs in a thread of its own: parses the text it receives and returns the result. */

import { parentPort, workerData } from 'node:worker_threads'
import { readPart } from './documents.ts'

parentPort?.postMessage(readPart(workerData as string))
