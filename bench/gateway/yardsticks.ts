/** Servers that only answer Check, to compare the service with; they exist only in a checkout. */

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findOnPath } from '../../dev/python-wheel.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'

/** A program that serves gRPC on the address in its last argument. */
export interface Yardstick {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  /** Whether it is a Node program, which ends with its IPC channel. */
  readonly isNode: boolean
}

const buildWithinMs = 300_000

/** The available ones; calls `note` for each that is not. Builds into `folder`. */
export async function findYardsticks(
  env: NodeJS.ProcessEnv,
  folder: string,
  note: (line: string) => void,
  signal: AbortSignal,
): Promise<readonly Yardstick[]> {
  const sources = join(packageRoot, 'bench', 'yardsticks')
  if (!existsSync(sources)) {
    note('No yardsticks: their sources are in a checkout of Tollgate only.')
    return []
  }
  const node = (name: string, file: string): Yardstick => ({
    name,
    command: process.execPath,
    args: [join(sources, file)],
    isNode: true,
  })
  const found = [node('raw frames', 'raw.ts'), node('own gRPC server', 'own.ts')]
  if (canResolve('@grpc/grpc-js')) found.push(node('grpc-js', 'grpc-js.ts'))
  else note('No yardstick grpc-js: it is a development dependency (npm ci --include=dev).')
  const go = findOnPath('go', env)
  if (go === undefined) note('No yardstick in Go: there is no go on PATH.')
  else {
    const program = join(folder, 'ext_authz')
    note('Building the yardstick in Go')
    try {
      await promisify(execFile)(go, ['build', '-buildvcs=false', '-o', program, './ext_authz'], {
        cwd: join(packageRoot, 'bench', 'go'),
        env,
        timeout: buildWithinMs,
        signal,
      })
      found.push({ name: 'Go', command: program, args: [], isNode: false })
    } catch (error) {
      signal.throwIfAborted()
      const { stderr = '', message } = error as Error & { stderr?: string }
      note(`No yardstick in Go: ${stderr.trim().split('\n').at(-1) || message}`)
    }
  }
  return found
}

function canResolve(name: string): boolean {
  try {
    createRequire(import.meta.url).resolve(name)
    return true
  } catch {
    return false
  }
}
