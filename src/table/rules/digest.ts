/** Under which digest a record is found: what a script can say of a request before it has asked anybody. */

import { hash } from 'node:crypto'

/**
 * `path`: as the gateway has normalized it, with its query; `model`: that of the body, empty where the path names
 * one. None of the three can contain the separator.
 */
export function recordDigest(credential: string, path: string, model: string): Buffer {
  return hash('sha256', `${credential}\0${path}\0${model}`, 'buffer')
}
