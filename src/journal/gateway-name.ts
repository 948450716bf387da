/**
 * The name of a gateway among those that share counters: a small file that records the machine and disk on which it was
 * created, so that a copied volume can be told from the original.
 */

import { hash, randomInt } from 'node:crypto'
import * as fs from 'node:fs'
import { access } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { replaceFile, replaceFileSync } from '../runtime/replace-file.ts'
import { unlessMissing } from '../runtime/unless-missing.ts'
import type { JournalPosition } from './followed-files.ts'
import { readSmallText } from './small-file.ts'

interface NameFile {
  readonly name: string
  /** The gateway's journal, for operators. */
  readonly journal: string
  /** The inode of this file and the machine, recorded at its creation. */
  readonly inode: string
  readonly host: string
  /** The previous name, if it differs. */
  readonly was?: string | undefined
  /** The position from which lines count under this name, after a change. */
  readonly from?: readonly (readonly [head: string, bytes: number])[] | undefined
}

interface NameOptions {
  /** The file below DATA_DIR and the one in the shared folder, which may be the same. */
  readonly kept: string
  readonly shared: string
  readonly journal: string
  /** This machine; by default `hostId()`. */
  readonly host?: string
}

const length = 8
const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const form = /^[0-9A-Za-z]{8}$/

/** A random name. The probability that two of 5,000 gateways have the same is 1 in 17 million. */
export function randomGatewayName(): string {
  return Array.from({ length }, () => letters[randomInt(letters.length)]).join('')
}

/** Identifies the machine; constant across restarts while its host name is. */
function hostId(): string {
  let machine = ''
  try {
    machine = fs.readFileSync('/etc/machine-id', 'utf8')
  } catch {
    // Most containers have no machine id; their host names differ.
  }
  return hash('sha256', `${hostname()}\n${machine}`, 'hex').slice(0, 16)
}

/**
 * Reads the gateway's name, or creates one; processes that start at once get the same. Throws if it can't be written,
 * or if the two files disagree.
 */
export function openGatewayName({ kept, shared, journal, host = hostId() }: NameOptions) {
  const known = read(kept) ?? read(shared)
  let from = known?.from
  const found = create(kept, known?.name ?? randomGatewayName())
  let beside = create(shared, found.name)
  if (beside.name === found.was) {
    // A process was killed while it changed the name.
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
    fs.mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    const text = textOf(own, was)
    // Of processes that start at once, one creates the file.
    replaceFileSync(path, text, { mode: 0o600, onlyIfAbsent: !replaces, isDurable: true })
  }

  function textOf(own: string, was?: string) {
    return (inode: bigint): string => {
      const written: NameFile = { name: own, journal, inode: String(inode), host, was, from }
      return `${JSON.stringify(written)}\n`
    }
  }

  return {
    get name(): string {
      return name
    },
    /** Whether the name was created on another machine or disk, where a gateway may still use it. */
    isCopied,
    /** The position from which lines count under this name; undefined if it is the first one. */
    get begunAt(): JournalPosition | undefined {
      return from && new Map(from)
    },
    /** Reads the name again; returns whether another process has changed it. */
    refresh(): boolean {
      // Reads the shared file, which is in memory if possible: a disk may hang.
      const found = read(shared)
      if (found === undefined || found.name === name) return false
      ;({ name, from } = found)
      return true
    },
    /** Writes the name again where its file was removed, if the folder is there. Waits for disks, which may hang. */
    async putBack(): Promise<void> {
      const text = textOf(name)
      for (const path of [kept, shared]) {
        if (await access(path).then(() => true, unlessMissing)) continue
        await replaceFile(
          path,
          async (draft) => draft.writeFile(text((await draft.stat({ bigint: true })).ino)),
          { mode: 0o600, onlyIfAbsent: true },
        ).catch(unlessMissing)
      }
    },
    /** Changes the gateway's name to `next`, under which lines from this position on count. */
    rename(next: string, position?: JournalPosition): void {
      if (position !== undefined) from = [...position]
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
