/** A container engine with podman's commands: builds the image, and runs containers of our manifests. */

import { execFileSync, spawnSync } from 'node:child_process'
import { packageRoot } from '../../../src/runtime/package-root.ts'
import { type Launch, user } from './container.ts'
import { readContainerfile } from './containerfile.ts'

/** Flags for this machine, such as `podman --runtime /usr/sbin/runc` and `--ulimit nofile=16384:16384`. */
const { CONTAINER_ENGINE = 'podman', CONTAINER_RUN_FLAGS = '' } = process.env
const [program = '', ...flags] = CONTAINER_ENGINE.split(' ')
const runFlags = CONTAINER_RUN_FLAGS.split(' ').filter((flag) => flag !== '')

/** Why there is none, for tests to skip; false if there is one. */
export const noEngine = whyNone()

function whyNone(): string | false {
  if (spawnSync(program, [...flags, 'info']).status !== 0) return `no ${program}`
  const bases = readContainerfile().flatMap(
    ([from]) => /^docker\.io\S+/.exec(from?.text ?? '') ?? [],
  )
  const isThere = (base: string) =>
    spawnSync(program, [...flags, 'image', 'exists', base]).status === 0 ||
    spawnSync(program, [...flags, 'pull', '--quiet', base]).status === 0
  const missing = bases.filter((base) => !isThere(base))
  return missing.length > 0 && `no ${missing.join()}, and it cannot be pulled`
}

/** Builds a target of a Containerfile, by default the last one; it uses this machine's network. */
export function buildImage(tag: string, target?: string, file = 'Containerfile'): void {
  const own = ['build', '--network', 'host', '--file', file, '--tag', tag]
  const args = [...flags, ...own, ...(target ? ['--target', target] : []), '.']
  execFileSync(program, args, { cwd: packageRoot, stdio: ['ignore', 'ignore', 'inherit'] })
}

/** Writes images into one archive. */
export function saveImages(archive: string, tags: readonly string[]): void {
  const args = ['save', '--multi-image-archive', '--output', archive, ...tags]
  execFileSync(program, [...flags, ...args], { stdio: ['ignore', 'ignore', 'inherit'] })
}

/** Bytes of an image, including its base. */
export function sizeOf(image: string): number {
  const args = [...flags, 'image', 'inspect', '--format', '{{.Size}}', image]
  return Number(execFileSync(program, args, { encoding: 'utf8' }))
}

/** As the kubelet would start it: read-only, without capabilities, with its limits. */
export const byEngine: Launch = ({ container, mounts, env, command, name }) => {
  const { cpu = '1', memory = '1Gi' } = container.resources?.limits ?? {}
  return {
    command: [
      ...[program, ...flags, 'run', '--rm', '--name', name, '--network', 'host'],
      ...['--read-only', '--read-only-tmpfs=false', '--cap-drop', 'all'],
      ...['--user', `${user}:${user}`, '--security-opt', 'no-new-privileges'],
      ...['--cpus', `${cpu.endsWith('m') ? Number.parseInt(cpu, 10) / 1_000 : cpu}`],
      ...['--memory', memory.replace('i', '').toLowerCase(), ...runFlags],
      ...mounts.flatMap(({ from, to, isReadOnly }) => [
        ...['--volume', `${from}:${to}${isReadOnly ? ':ro' : ''}`],
      ]),
      ...env.flatMap((variable) => ['--env', variable]),
      ...['--entrypoint', JSON.stringify(command), container.image],
    ],
    remove: () => void spawnSync(program, [...flags, 'rm', '--force', '--time', '0', name]),
  }
}
