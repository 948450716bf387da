/** Runs in a thread of its own: reads the text it was given, answers once. */

import { parentPort, workerData } from 'node:worker_threads'
import { readPart } from './documents.ts'

parentPort?.postMessage(readPart(workerData as string))
