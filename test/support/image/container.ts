/**
 * Containers of our manifests, by an engine or without one. Without one it has a read-only root with this machine's
 * /usr and the image's /opt, the volumes of its pod, and uid 65532 without capabilities. It uses this machine's
 * network. Needs root.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { chmodSync, chownSync, existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { Container, Pod } from '../kubernetes/manifests.ts'
import { poll } from '../poll.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** The user and the group of every container. */
export const user = 65_532

/** Why no container can run here, for tests to skip; false if one can. */
export const noContainers =
  (process.platform !== 'linux' && 'not on Linux') ||
  (process.getuid?.() !== 0 && 'needs root') ||
  (spawnSync('unshare', ['--mount', 'setpriv', '--version']).status !== 0 &&
    'no unshare and setpriv (util-linux)')

export interface RunningContainer {
  output(): string
  /**
   * Resolves once `ask` returns true. Rejects with the output if the container ends first, or after
   * two minutes.
   */
  until(what: string, ask: () => Promise<boolean>): Promise<void>
  /** The exit status, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>
  signal(name: NodeJS.Signals): void
}

export interface PodHere {
  /** Runs a container of the pod with these additional settings; `command` replaces its own. */
  run(
    container: string,
    env?: Readonly<Record<string, string>>,
    command?: readonly string[],
  ): RunningContainer
}

/** One container to be started. */
export interface Start {
  readonly container: Container
  /** Folders here, and where the container sees them. */
  readonly mounts: readonly {
    readonly from: string
    readonly to: string
    readonly isReadOnly: boolean
  }[]
  /** `NAME=value` each. */
  readonly env: readonly string[]
  readonly command: readonly string[]
  /** An empty folder, and a unique name. */
  readonly folder: string
  readonly name: string
}

/** The program that runs a container until it ends, and what removes it by force. */
export type Launch = (start: Start) => {
  readonly command: readonly string[]
  readonly remove?: () => void
}

/**
 * The volumes of a pod. Its emptyDirs are created; the other volumes are the given folders, by
 * name. `environment` has the values of ConfigMaps and of the image.
 */
export function createPod(
  t: Test,
  pod: Pod,
  {
    launch,
    folders,
    environmentOf,
  }: {
    readonly launch: Launch
    readonly folders: Readonly<Record<string, string>>
    readonly environmentOf: (container: Container) => Readonly<Record<string, string>>
  },
): PodHere {
  const home = temporaryFolder(t)
  const volumes = Object.fromEntries(
    (pod.spec.volumes ?? []).map(({ name, emptyDir }) => {
      const path = folders[name] ?? join(home, name)
      if (emptyDir !== undefined) makeEmptyDir(path)
      if (!existsSync(path)) throw new Error(`no folder for the volume ${name} of ${pod.name}`)
      return [name, path]
    }),
  )
  return {
    run(name, env = {}, command) {
      const container = pod.containers.find((each) => each.name === name)
      if (container === undefined) throw new Error(`${pod.name} has no container ${name}`)
      const own = `tollgate-test-${randomUUID()}`
      mkdirSync(join(home, own))
      const { command: entry = ['tollgate'], args = [], volumeMounts = [] } = container
      const variables = Object.entries({ ...environmentOf(container), ...env })
      const { command: program, remove } = launch({
        container,
        mounts: volumeMounts.map(({ name, mountPath: to, readOnly: isReadOnly = false }) => ({
          ...{ from: volumes[name] ?? '', to, isReadOnly },
        })),
        env: variables.map(([variable, value]) => `${variable}=${value}`),
        command: command ?? [...entry, ...args],
        ...{ folder: join(home, own), name: own },
      })
      return start(t, program, remove)
    },
  }
}

/** Without an engine: `opt` is the image's /opt. */
export const byHand =
  (opt: string): Launch =>
  ({ folder, mounts, env, command }) => ({
    command: [
      ...['unshare', '--mount', '--propagation', 'private', 'sh', '-ec', enter],
      ...[folder, opt, `${user}`],
      ...mounts.flatMap(({ from, to, isReadOnly }) => [from, to, isReadOnly ? 'ro' : 'rw']),
      ...['--', 'env', '-i', ...env, ...command],
    ],
  })

/** As the kubelet creates them with `fsGroup`. */
function makeEmptyDir(path: string): void {
  mkdirSync(path)
  chownSync(path, 0, user)
  chmodSync(path, 0o2777)
}

/**
 * $0 is the root, $1 the image's /opt, $2 the user, followed by mounts of three arguments each up
 * to `--`, and by the command.
 */
const enter = `
root=$0 opt=$1 user=$2
shift 2
mount -t tmpfs -o mode=755 none "$root"
cd "$root"
mkdir usr etc opt dev proc
for link in bin sbin lib lib64; do [ -L /$link ] && ln -s usr/$link $link; done
ro() { mount --rbind "$1" "$root$2"; mount -o remount,bind,ro "$root$2"; }
ro /usr /usr
ro "$opt" /opt
mount --rbind /dev dev
mount --rbind /proc proc
cp -r /etc/ssl /etc/hosts /etc/ld.so.cache etc/
echo "tollgate:x:$user:$user::/nonexistent:/usr/sbin/nologin" > etc/passwd
echo "tollgate:x:$user:" > etc/group
while [ "$1" != -- ]; do
  mkdir -p "$root$2"
  if [ "$3" = ro ]; then ro "$1" "$2"; else mount --bind "$1" "$root$2"; fi
  shift 3
done
shift
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs \\
  --inh-caps=-all --bounding-set=-all sh -c 'cd /opt/tollgate && exec "$@"' sh "$@"
`

function start(
  t: Test,
  [program = '', ...args]: readonly string[],
  remove = (): void => {},
): RunningContainer {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const ended = endOf(child)
  t.teardown(async () => {
    child.kill('SIGKILL')
    remove()
    await ended
  })
  return {
    output: () => output,
    async until(what, ask) {
      const isOver = () => child.exitCode !== null || child.signalCode !== null
      await poll(async () => isOver() || (await ask()), what, 120_000).catch((error: Error) => {
        throw new Error(`${error.message}\n${output}`)
      })
      if (isOver()) throw new Error(`it ended before: ${what}\n${output}`)
    },
    ended,
    signal: (name) => child.kill(name),
  }
}

function endOf(child: ChildProcess): Promise<number | string> {
  return new Promise((settle) => {
    child.on('error', (error) => settle(error.message))
    child.on('close', (code, signal) => settle(code ?? signal ?? ''))
  })
}
