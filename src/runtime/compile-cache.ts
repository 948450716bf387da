/** Node's cache of compiled sources. */

import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import { packageRoot } from './package-root.ts'

/**
 * Keeps what this process compiles from now on in `.tools/compiled`, where later processes find it: they load
 * the service in half the CPU time. If the folder is not writable, nothing is kept. Call it after V8's flags are
 * set: Node has a folder for each combination of flags, and does not use what was compiled with others.
 */
export function cacheCompiled(): void {
  enableCompileCache(join(packageRoot, '.tools', 'compiled'))
}
