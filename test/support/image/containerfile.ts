/** Reads the instructions of our Containerfile and runs them without a container engine. */

import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { packageRoot } from '../../../src/runtime/package-root.ts'

export interface Instruction {
  /** `FROM`, `RUN`, `COPY` and so on. */
  readonly name: string
  readonly text: string
}

/** The instructions of each stage, from its FROM on. */
export function readContainerfile(): readonly (readonly Instruction[])[] {
  const text = readFileSync(join(packageRoot, 'Containerfile'), 'utf8')
  const lines = text.replaceAll(/\\\n\s*/g, '').split('\n')
  const instructions = lines
    .filter((line) => line.trim() !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name = '', text = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? []
      return { name, text }
    })
  const stages: Instruction[][] = []
  for (const instruction of instructions) {
    if (instruction.name === 'FROM') stages.push([])
    stages.at(-1)?.push(instruction)
  }
  return stages
}

/**
 * Runs the stage `packages` in `folder`, which becomes its /opt. This machine replaces the base
 * image, so what the stage would install from Debian must be present. Returns the folder.
 */
export function buildPackages(folder: string): string {
  let workdir = '/opt'
  const own = (path: string): string => join(folder, path.replace(/^\/opt(?=\/|$)/, ''))
  for (const { name, text } of readContainerfile()[0] ?? []) {
    if (name === 'WORKDIR') {
      workdir = text
      mkdirSync(own(workdir), { recursive: true })
    }
    if (name === 'COPY') copy(text.split(' '), own(workdir))
    if (name === 'RUN' && !text.startsWith('apt-get')) run(text, workdir, folder)
  }
  return folder
}

function copy(paths: readonly string[], workdir: string): void {
  const target = paths.at(-1) ?? ''
  for (const path of paths.slice(0, -1)) {
    const source = join(packageRoot, path)
    const to = target.endsWith('/') ? join(workdir, target, path) : join(workdir, target)
    mkdirSync(dirname(to), { recursive: true })
    cpSync(source, to, { recursive: statSync(source).isDirectory() })
  }
}

/** Runs in a mount namespace of its own, in which /opt is the folder. */
function run(command: string, workdir: string, folder: string): void {
  const script = `mount --bind "$0" /opt && cd ${workdir} && ${command}`
  const args = ['--mount', '--propagation', 'private', 'sh', '-ec', script, folder]
  execFileSync('unshare', args, { stdio: ['ignore', 'ignore', 'inherit'], env: plain })
}

/** Without npm's variables for scripts, which would affect nested npm commands. */
const plain = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')),
)
