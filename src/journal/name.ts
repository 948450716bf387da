/**
 * The name of a gateway among those that share counters: a small file that says on which machine and disk
 * it was given, so that a copied volume is known from the one it was copied from.
 */

import { hash, randomBytes, randomInt } from 'node:crypto'
import * as fs from 'node:fs'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { readSmallText } from './small-file.ts'

interface NameFile {
  readonly name: string
  /** The gateway's journal, for operators. */
  readonly journal: string
  /** The inode of the file itself, and the machine that created it. */
  readonly inode: string
  readonly host: string
  /** The previous name, if it differs. */
  readonly was?: string | undefined
}

interface NameOptions {
  /** The file below DATA_DIR, and the one in the shared folder, which may be the same. */
  readonly kept: string
  readonly shared: string
  readonly journal: string
  /** This machine, by default as `hostId` tells it. */
  readonly host?: string
}

const length = 8
const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const form = /^[0-9A-Za-z]{8}$/

/**
 * Writes a small file whole, and its folder if missing: in the place of the one that is there, or only if there is
 * none. `textOf` gets the inode of the new file.
 */
export function writeWhole(
  path: string,
  textOf: (inode: string) => string,
  replaces = false,
): void {
  fs.mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const draft = `${path}.${randomBytes(8).toString('hex')}.tmp`
  const file = fs.openSync(draft, 'wx', 0o600)
  try {
    fs.writeSync(file, textOf(String(fs.fstatSync(file, { bigint: true }).ino)))
    fs.fsyncSync(file)
    if (replaces) fs.renameSync(draft, path)
    // A link never replaces a file: of concurrent callers exactly one creates it, whole.
    else fs.linkSync(draft, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    fs.closeSync(file)
    fs.rmSync(draft, { force: true })
  }
}

/** A name that no other gateway has: two of 5,000 are the same once in 17 million times. */
export function inventName(): string {
  return Array.from({ length }, () => letters[randomInt(letters.length)]).join('')
}

/** The same as long as the machine keeps its name, across restarts. */
function hostId(): string {
  let machine = ''
  try {
    machine = fs.readFileSync('/etc/machine-id', 'utf8')
  } catch {
    // Most containers have none; their names differ.
  }
  return hash('sha256', `${hostname()}\n${machine}`, 'hex').slice(0, 16)
}

/**
 * Takes the name that is there, or gives one: of processes that begin at once all have the same. Throws if it can't
 * be written, or if both files name different gateways.
 */
export function openName({ kept, shared, journal, host = hostId() }: NameOptions) {
  const known = read(kept) ?? read(shared)
  const found = create(kept, known?.name ?? inventName())
  let beside = create(shared, found.name)
  if (beside.name === found.was) {
    // A process that was killed while it took another name.
    write(shared, found.name, true)
    beside = found
  }
  if (beside.name !== found.name) {
    const which = `${kept} names ${found.name}, ${shared} names ${beside.name}`
    throw new Error(
      `${which}: processes with the same USAGE_JOURNAL must have the same DATA_DIR, and other gateways must use neither`,
    )
  }
  let { name } = found
  const isCopied = found.inode !== inodeOf(kept) || found.host !== host

  function create(path: string, own: string): NameFile {
    const there = read(path)
    if (there !== undefined) return there
    write(path, own)
    const made = read(path)
    if (made === undefined) throw new Error(`${path} does not contain a name; remove it`)
    return made
  }

  function write(path: string, own: string, replaces = false, was?: string): void {
    const textOf = (inode: string): string => {
      const written: NameFile = { name: own, journal, inode, host, was }
      return `${JSON.stringify(written)}\n`
    }
    writeWhole(path, textOf, replaces)
  }

  return {
    get name(): string {
      return name
    },
    /** Whether it was given on another machine or disk: the gateway there may continue under it. */
    isCopied,
    /** Takes the name that is in force now; returns whether it is another one: another process has changed it. */
    refresh(): boolean {
      const last = name
      // In memory, if one of the files is: the disk may hang.
      name = read(shared)?.name ?? name
      return name !== last
    },
    /** Changes the name to one that is given here. */
    take(next: string): void {
      for (const path of new Set([kept, shared])) write(path, next, true, name)
      name = next
    },
  }
}

function inodeOf(path: string): string {
  return String(fs.statSync(path, { bigint: true }).ino)
}

function read(path: string): NameFile | undefined {
  try {
    const file: NameFile = JSON.parse(readSmallText(path))
    return form.test(file.name) ? file : undefined
  } catch {
    return undefined
  }
}
