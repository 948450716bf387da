/**
 * Passes secrets to Envoy by file-based SDS: one file for each, which Envoy watches. Secrets are in
 * no other file, neither in the clusters nor in a log.
 */

import { chmod, mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Snapshot } from '../models/rules/snapshot.ts'
import { forEachConcurrently } from '../runtime/concurrency.ts'
import { repeat } from '../runtime/loop.ts'
import { createMutex } from '../runtime/mutex.ts'
import { replaceFile } from '../runtime/replace-file.ts'
import { unlessMissing } from '../runtime/unless-missing.ts'
import {
  locationOf,
  type Secret,
  type SecretLocation,
  secretFolder,
  serverSecrets,
} from './secret-location.ts'
import type { SecretReading } from './secret-source.ts'

/** Milliseconds between two checks of the files. */
const restMs = 1_000
/** How long an unused file stays, because clusters that name it may still be draining; milliseconds. */
const graceMs = 60_000
/** How long a snapshot waits for secrets that are new, and a check of the files for all; milliseconds. */
const defaultWaitsMs = { fresh: 10_000, check: 2_000 }

const discovery = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret'

interface SecretFilesDeps {
  /** The folder of Envoy's clusters. */
  readonly directory: string
  readonly read: (secret: Secret) => Promise<SecretReading>
  /** Called once for each problem with a file, and again if it recurs. */
  readonly onProblem: (problem: string) => void
  readonly onFault: (error: unknown) => void
  /** For tests. */
  readonly waitsMs?: { readonly fresh: number; readonly check: number }
}

export type SecretFiles = ReturnType<typeof createSecretFiles>

interface Needed {
  readonly secret: Secret
  readonly location: SecretLocation
  /** `<namespace>/<name>` of the first model that needs it. */
  readonly model: string
  readonly withLock: ReturnType<typeof createMutex>
  /** When it was last read, by this process's clock. */
  readAt: number
  isBeingRead: boolean
  written: string | undefined
  problem: string | undefined
}

export function createSecretFiles(deps: SecretFilesDeps) {
  const folder = secretFolder(deps.directory)
  const { waitsMs = defaultWaitsMs } = deps
  const closing = new AbortController()
  let needed: ReadonlyMap<string, Needed> = new Map()
  let models: Snapshot['models'] | undefined
  const withLock = createMutex()
  let isFollowing = false

  /** Writes the file of a secret, unless it has this text. Call it with its lock. */
  async function writeSecret(each: Needed, reading: SecretReading): Promise<void> {
    const { secret, location } = each
    const problem = 'problem' in reading ? `ModelRef/${each.model}: ${reading.problem}` : undefined
    const text = render(secret, location, 'text' in reading ? reading.text : undefined)
    if (problem !== undefined && problem !== each.problem) deps.onProblem(problem)
    each.problem = problem
    // Others may have removed the file.
    if (text === each.written && (await stat(location.path).catch(unlessMissing))) return
    await replaceFile(location.path, text, { mode: 0o600 })
    each.written = text
  }

  async function refresh(each: Needed): Promise<void> {
    each.readAt = performance.now()
    each.isBeingRead = true
    try {
      const reading = await deps.read(each.secret)
      if (needed.get(each.location.name) !== each) return
      await each.withLock(() => writeSecret(each, reading))
    } finally {
      each.isBeingRead = false
    }
  }

  /**
   * Reads these secrets, first those that were read longest ago. After `waitMs` it does not wait for the rest: changes of
   * resources would wait, too. What is answered later is written then.
   */
  async function refreshAll(all: readonly Needed[], waitMs: number): Promise<void> {
    await mkdir(folder, { recursive: true })
    await chmod(folder, 0o700)
    const due = all.filter(({ isBeingRead }) => !isBeingRead).sort((a, b) => a.readAt - b.readAt)
    // A limited number at a time: each is an open file.
    await forEachConcurrently(due, { concurrency: 8, signal: AbortSignal.timeout(waitMs) }, refresh)
  }

  const unwritten = (): readonly Needed[] =>
    [...needed.values()].filter(({ written }) => written === undefined)

  async function checkAll(): Promise<void> {
    await refreshAll([...needed.values()], waitsMs.check)
    await removeUnneeded(folder, new Set([...needed.values()].map(({ location }) => location.path)))
  }

  return {
    /** Writes the secrets that these models need; only then may a cluster name them. */
    async write(snapshot: Snapshot): Promise<void> {
      if (snapshot.models === models) return
      await withLock(async () => {
        const found = new Map<string, Needed>()
        for (const [model, { resource }] of snapshot.models) {
          for (const secret of serverSecrets(resource.metadata.namespace, resource.server)) {
            if (secret === undefined) continue
            const location = locationOf(secret, deps.directory)
            const before = needed.get(location.name)
            const fresh = {
              ...{ secret, location, model, withLock: createMutex() },
              ...{ readAt: 0, isBeingRead: false, written: undefined, problem: undefined },
            }
            if (!found.has(location.name)) found.set(location.name, before ?? fresh)
          }
        }
        needed = found
        if (needed.size > 0) await refreshAll(unwritten(), waitsMs.fresh)
        // A cluster may not name a missing file.
        const unread = { problem: 'the secret has not been read yet' }
        await forEachConcurrently(unwritten(), { concurrency: 8 }, (each) =>
          // The answer may have been written meanwhile.
          each.withLock(async () => {
            if (each.written === undefined) await writeSecret(each, unread)
          }),
        )
        models = snapshot.models
      })
      if (needed.size === 0 || isFollowing) return
      isFollowing = true
      const { signal } = closing
      const step = () => withLock(checkAll)
      void repeat({ step, restMs, restsFirst: true, onFault: deps.onFault, signal })
    },
    /** The current problems. Envoy refuses requests to models whose secret is missing. */
    problems: (): readonly string[] =>
      [...needed.values()].flatMap(({ problem }) => problem ?? []).sort(),
    close: (): void => closing.abort(),
  }
}

/** A `DiscoveryResponse` with the secret. Without a text Envoy has no secret, and sends no request. */
function render(secret: Secret, { name }: SecretLocation, text: string | undefined): string {
  const value = { inline_string: text ?? '' }
  const resource = {
    '@type': discovery,
    name,
    ...(secret.kind === 'credential'
      ? { generic_secret: { secret: value } }
      : { validation_context: { trusted_ca: value } }),
  }
  const isEmpty = text === undefined && secret.kind === 'authorities'
  return `${JSON.stringify({ type_url: discovery, resources: isEmpty ? [] : [resource] })}\n`
}

async function removeUnneeded(folder: string, needed: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    if (needed.has(path)) continue
    const found = await stat(path).catch(() => undefined)
    if (found !== undefined && Date.now() - found.mtimeMs > graceMs) await rm(path, { force: true })
  }
}
