/** Models for schedules of faults: a disk, an Envoy, a Redis with all that can happen to it, a network. */

import { setImmediate as turn } from 'node:timers/promises'
import { addExact, type ExactInt, subtractExact } from '../../../src/formats/exact.ts'
import type { DurableFiles } from '../../../src/journal/durable-files.ts'
import type { JournalFolder } from '../../../src/journal/journal-folder.ts'
import { markMs } from '../../../src/ratelimit/sums/scripts.ts'
import type {
  SumEntry,
  SumStore,
  WriteReply,
  WriterMark,
} from '../../../src/ratelimit/sums/sum-store.ts'
import { createRandom } from '../../support/random.ts'

export type Dice = ReturnType<typeof createDice>

export function createDice(seed: number) {
  const { below } = createRandom(seed)
  return {
    below,
    chance: (p: number): boolean => below(10_000) < p * 10_000,
    pick: <T>(all: readonly T[]): T => all[below(all.length)] as T,
  }
}

interface File {
  readonly inode: number
  bytes: Buffer
  touchedAt: number
}

/** Files that survive their processes. */
export class Disk {
  readonly files = new Map<string, File>()
  #inodes = 0

  create(name: string, text = ''): File {
    this.#inodes += 1
    const file = { inode: this.#inodes, bytes: Buffer.from(text), touchedAt: 0 }
    this.files.set(name, file)
    return file
  }

  move(from: string, to: string): void {
    const file = this.files.get(from)
    if (file === undefined) return
    this.files.delete(from)
    this.files.set(to, file)
  }

  append(name: string, text: string): void {
    const file = this.files.get(name) ?? this.create(name)
    file.bytes = Buffer.concat([file.bytes, Buffer.from(text)])
  }

  text(name: string): string {
    return this.files.get(name)?.bytes.toString() ?? ''
  }

  copy(): Disk {
    const copy = new Disk()
    for (const [name, { bytes }] of this.files) copy.create(name).bytes = bytes
    return copy
  }
}

export class Killed extends Error {}

/** A process, which may be killed before and after each step that others see. */
export interface Life {
  isDead: boolean
  /** Kills it now, or not; throws `Killed` if it is dead. */
  strike(): void
}

/** What a process sees of its gateway's folder. */
export function folderOf(disk: Disk, { strike }: Life, now: () => number): JournalFolder {
  return {
    list: (isWanted = () => true) =>
      [...disk.files].flatMap(([name, { inode, bytes }]) => {
        return isWanted(name) ? [{ name, inode: String(inode), size: bytes.length }] : []
      }),
    open(name) {
      strike()
      const file = disk.files.get(name)
      if (file === undefined) return undefined
      return {
        inode: String(file.inode),
        size: () => file.bytes.length,
        read(into, offset) {
          strike()
          return file.bytes.copy(into, 0, offset)
        },
        close() {},
      }
    },
    remove(name) {
      strike()
      disk.files.delete(name)
      strike()
    },
    renew(name, earlier) {
      strike()
      disk.move(name, earlier)
      disk.create(name)
      strike()
    },
    identity: () => 'disk',
    readText: (name) => disk.text(name),
    appendText(name, text) {
      strike()
      disk.append(name, text)
      ;(disk.files.get(name) as File).touchedAt = now()
      strike()
    },
    replaceText(name, text) {
      strike()
      disk.create(name, text).touchedAt = now()
    },
    watch: () => undefined,
    touch(name) {
      const file = disk.files.get(name)
      if (file !== undefined) file.touchedAt = now()
    },
    touchedAt: (name) => disk.files.get(name)?.touchedAt,
  }
}

/** What a process sees of the files that are kept, on a disk that may take its time. */
export function keptOf(disk: Disk, life: Life, isSlow: () => boolean): DurableFiles {
  const prefix = 'kept/'
  async function wait(): Promise<void> {
    life.strike()
    for (let turns = isSlow() ? 6 : 0; turns > 0; turns -= 1) await turn()
    life.strike()
  }
  return {
    async names() {
      await wait()
      return [...disk.files.keys()].flatMap((name) => {
        return name.startsWith(prefix) ? [name.slice(prefix.length)] : []
      })
    },
    async read(name) {
      await wait()
      return disk.text(prefix + name)
    },
    async append(name, text) {
      await wait()
      if (!disk.files.has(prefix + name)) throw new Error(`no ${name}`)
      try {
        life.strike()
      } catch (error) {
        disk.append(prefix + name, text.slice(0, text.length / 2))
        throw error
      }
      disk.append(prefix + name, text)
      life.strike()
    },
    async replace(name, write) {
      await wait()
      const unfinished = `${prefix}${name}.1.tmp`
      disk.create(unfinished)
      try {
        await write(async (text) => {
          await wait()
          disk.append(unfinished, text)
        })
        await wait()
        disk.move(unfinished, prefix + name)
        await wait()
      } catch (error) {
        if (!life.isDead) disk.files.delete(unfinished)
        throw error
      }
    },
    async remove(name) {
      await wait()
      disk.files.delete(prefix + name)
      life.strike()
    },
  }
}

/** Writes one of a gateway's files: by whole lines, or from a buffer; and dies. */
export class LineWriter {
  readonly disk: Disk
  readonly name: string
  #file: File | undefined
  #buffer = ''

  constructor(disk: Disk, name: string) {
    this.disk = disk
    this.name = name
  }

  get buffered(): number {
    return this.#buffer.length
  }

  log(line: string): void {
    this.#buffer += `\n${line}\n`
  }

  flush(): void {
    this.#file ??= this.disk.files.get(this.name) ?? this.disk.create(this.name)
    this.#file.bytes = Buffer.concat([this.#file.bytes, Buffer.from(this.#buffer)])
    this.#buffer = ''
  }

  reopen(): void {
    this.flush()
    this.#file = this.disk.files.get(this.name) ?? this.disk.create(this.name)
  }

  /** Writes only so much of what it had not written; returns the lines that are whole on the disk. */
  die(written: number): readonly string[] {
    // Not all of a line but its end: whoever writes next would make it a whole one.
    const lacksEnd = this.#buffer[written] === '\n' && this.#buffer[written - 1] !== '\n'
    const part = this.#buffer.slice(0, lacksEnd ? Math.max(0, written - 1) : written)
    this.#buffer = part
    this.flush()
    this.#file = undefined
    return part.split('\n').slice(0, -1)
  }
}

interface Hash {
  readonly fields: Map<string, ExactInt>
  readonly expiresAt: number
}

interface KeptMark {
  readonly number: number
  readonly nonce: string
  readonly expiresAt: number
}

/** One server, with a clock of its own; it does what the scripts do. */
export class Server {
  hashes = new Map<string, Hash>()
  marks = new Map<string, KeptMark>()
  isFull = false
  readonly now: () => number

  constructor(now: () => number) {
    this.now = now
  }

  copy(): Server {
    const copy = new Server(this.now)
    for (const [key, { fields, expiresAt }] of this.hashes) {
      copy.hashes.set(key, { fields: new Map(fields), expiresAt })
    }
    copy.marks = new Map(this.marks)
    return copy
  }

  fields(key: string): ReadonlyMap<string, ExactInt> {
    const found = this.hashes.get(key)
    if (found !== undefined && found.expiresAt <= this.now()) this.hashes.delete(key)
    return this.hashes.get(key)?.fields ?? new Map()
  }

  write(mark: WriterMark | undefined, entries: readonly SumEntry[]): WriteReply {
    if (this.isFull) throw new Error('OOM')
    const found = this.marks.get(mark?.key ?? '')
    const isThere = found !== undefined && found.expiresAt > this.now()
    const had = isThere ? found : { number: 0, nonce: '' }
    if (mark !== undefined) {
      const { key, number, nonce, acknowledged } = mark
      const isOwn = had.nonce === nonce
      const isRelied = acknowledged === 0 || (isOwn && had.number >= acknowledged)
      if (isRelied && !(isOwn && had.number > number)) {
        this.marks.set(key, { number, nonce, expiresAt: this.now() + markMs })
      }
    }
    const sums = entries.map((entry) => this.#raise(entry))
    return { number: had.number, nonce: had.nonce, sums }
  }

  #raise({ key, field, sum, ttlMs }: SumEntry): readonly [ExactInt, ExactInt] {
    const fields = this.fields(key)
    const own = fields.get(field) ?? 0
    const total = fields.get('+') ?? 0
    if (sum <= own) return [own, total]
    const { expiresAt } = this.hashes.get(key) ?? { expiresAt: this.now() + ttlMs }
    const grown = addExact(total, subtractExact(sum, own))
    const raised = new Map([...fields, [field, sum], ['+', grown]])
    this.hashes.set(key, { fields: raised, expiresAt })
    return [sum, grown]
  }
}

/** A process's way to the server that it takes for the right one. */
export class Link implements SumStore {
  readonly serverOf: (key: string) => Server
  readonly dice: Dice
  readonly life: Life
  /** Chance of a mishap for each call. */
  trouble = 0
  isDown = false
  late: (() => void)[] = []
  /** Whatever happens while a call is under way. */
  between = async (): Promise<void> => {}

  constructor(serverOf: (key: string) => Server, dice: Dice, life: Life) {
    this.serverOf = serverOf
    this.dice = dice
    this.life = life
  }

  async #call<T>(key: string, act: (server: Server) => T): Promise<T> {
    await undefined
    this.life.strike()
    if (this.isDown) throw new Error('down')
    const server = this.serverOf(key)
    if (this.dice.chance(this.trouble)) {
      const what = this.dice.below(4)
      if (what === 0) throw new Error('the request was lost')
      if (what === 1) {
        act(server)
        throw new Error('the answer was lost')
      }
      // It arrives after the caller has given up, or a second time.
      const later = this.dice.chance(0.5) ? () => server : () => this.serverOf(key)
      this.late.push(() => act(later()))
      if (what === 2) throw new Error('the request is late')
    }
    const answer = act(server)
    await this.between()
    this.life.strike()
    return answer
  }

  write(mark: WriterMark | undefined, entries: readonly SumEntry[]): Promise<WriteReply> {
    const key = mark?.key ?? entries[0]?.key ?? ''
    return this.#call(key, (server) => server.write(mark, entries))
  }

  async read(keys: readonly string[]): Promise<readonly ReadonlyMap<string, ExactInt>[]> {
    const [key = ''] = keys
    return this.#call(key, (server) => keys.map((each) => new Map(server.fields(each))))
  }
}
