/** The loop: gather → compile → publish → report. */

import { setTimeout as delay } from 'node:timers/promises'
import { formatPath } from '../../formats/fields.ts'
import type { AdmissionMode } from '../../kinds/resources.ts'
import { repeat } from '../../runtime/loop.ts'
import { createSingleFlight } from '../../runtime/single-flight.ts'
import { inSlices } from '../../runtime/slices.ts'
import { withAbort } from '../../runtime/with-abort.ts'
import { compileInSteps } from '../rules/compile.ts'
import type { RoutingOptions } from '../rules/find-backend.ts'
import { joinRoutes } from '../rules/join-routes.ts'
import {
  addMissingHints,
  type InvalidDocumentLocations,
  missingModelHints,
} from '../rules/missing-model.ts'
import { joinExternalModels } from '../rules/original/external-models.ts'
import { type CheckAddress, refuseAddresses } from '../rules/refuse-addresses.ts'
import type { ResourceProblem, Snapshot } from '../rules/snapshot.ts'
import { type FileProblem, parseFileInSteps } from './documents.ts'
import { createResourceFolder, formatProblem, gatherContents } from './resource-folder.ts'
import type { Contents, ResourceSource } from './resource-source.ts'
import { withUnreadableTenant } from './unreadable-tenant.ts'

interface LoadOptions {
  /** How backends are found for models that give none. */
  readonly routing?: RoutingOptions
  /** Which addresses models may have; all by default. */
  readonly checkAddress?: CheckAddress | undefined
  /** The mode of Subscriptions that set none. */
  readonly admissionMode?: AdmissionMode | undefined
}

export interface PipelineDeps extends LoadOptions {
  readonly source: ResourceSource
  /** Ends the wait for the first state. */
  readonly starting?: AbortSignal
  /**
   * Puts a snapshot in force, with its resources and the refused ones; the next snapshot waits
   * until the promise has settled.
   */
  readonly publish: (
    snapshot: Snapshot,
    resources: Contents['resources'],
    refused: Contents['refused'],
  ) => Promise<void>
  /** Called with the compile time of a snapshot, once it is in force; milliseconds. */
  readonly onPublished?: (compileMs: number) => void
  readonly report: (snapshot: Snapshot, problems: readonly string[]) => void
  /** A change could not be read, or not be published to its end. */
  readonly onFailure: (error: unknown) => void
}

/** Milliseconds before a change that could not be put in force is tried again. */
const retryMs = 2_000

export type Pipeline = Awaited<ReturnType<typeof startPipeline>>

/** A folder as a Snapshot, with all its problems, sorted by place. */
export async function loadSnapshot(
  folder: string,
  options: Pick<LoadOptions, 'checkAddress' | 'admissionMode'> = {},
) {
  const gathered = await createResourceFolder(folder).poll(0)
  if (gathered === undefined) throw new Error('the first poll of a folder has its contents')
  return load(gathered, undefined, options)
}

/** Loads the documents of one text. Their problems have no file name. */
export async function loadDocuments(text: string, admissionMode?: AdmissionMode) {
  const content = await inSlices(parseFileInSteps('', { text, isUtf8: true }))
  return load(await inSlices(gatherContents([content])), undefined, { admissionMode })
}

async function load(
  gathered: Contents,
  previous: Snapshot | undefined,
  { routing, checkAddress = () => undefined, admissionMode }: LoadOptions,
) {
  const unserved: ResourceProblem[] = []
  const closed = closeUnknown(gathered)
  const unread = invalidDocumentLocations(gathered.problems)
  const external = joinExternalModels(closed.resources, (each) => unserved.push(each), unread)
  const joined = await inSlices(joinRoutes(external, routing))
  const resources = await inSlices(refuseAddresses(joined, checkAddress))
  const compiled = await inSlices(compileInSteps(resources, previous, admissionMode))
  const saidOfMissing = missingModelHints(compiled, unread, gathered.hasIllegible)
  const snapshot = { ...compiled, saidOfMissing }
  const found = addMissingHints([...unserved, ...snapshot.problems], snapshot.saidOfMissing, unread)
  const problems = await inSlices(problemsOf(closed, found))
  // `resources`: those that it was compiled from.
  return { snapshot, resources, refused: gathered.refused, problems }
}

/** A file that was never read may have the limits of the Tenant. */
function closeUnknown(gathered: Contents): Contents {
  const { unknown: files = [] } = gathered
  const resources =
    files.length === 0 ? gathered.resources : withUnreadableTenant(gathered.resources)
  if (resources === gathered.resources) return gathered
  const message =
    'may have the limits of the Tenant, which no other file has: until it can be read, nobody may use any model'
  const problems = files.map((file) => ({ file, line: 1, severity: 'error', message }) as const)
  return { ...gathered, resources, problems: [...gathered.problems, ...problems] }
}

/** Where the documents that are not in force have their first problem, as `<file>:<line>`. */
export function invalidDocumentLocations(
  problems: readonly FileProblem[],
): InvalidDocumentLocations {
  const places = new Map<string, string>()
  for (const { unread, file, line } of problems) {
    if (unread === undefined || places.has(unread)) continue
    places.set(unread, line === 0 ? file : `${file}:${line}`)
  }
  return places
}

function* problemsOf(
  gathered: Contents,
  found: readonly ResourceProblem[],
): Generator<void, readonly FileProblem[]> {
  const problems = [...gathered.problems]
  const placeOf = ({ file, message }: FileProblem) => `${file}\n${message}`
  const read = found.some(({ because }) => because !== undefined)
    ? new Map(problems.map((problem, index) => [placeOf(problem), index]))
    : undefined
  for (const { resource, path, message, because } of found) {
    const locate = (text: string) => gathered.locate(resource, path, `${formatPath(path)} ${text}`)
    const problem = locate(message)
    const index = because === undefined ? undefined : read?.get(placeOf(locate(because)))
    const cause = index === undefined ? undefined : problems[index]
    if (index === undefined || cause === undefined) problems.push(problem)
    else problems[index] = { ...problem, line: cause.line }
    yield
  }
  return problems.sort((a, b) => (a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line))
}

/**
 * Publishes the source's resources once, then again after each change. Throws if the first attempt
 * fails. A state that could not be published is tried again until it succeeds or there is a newer one.
 */
export async function startPipeline(deps: PipelineDeps) {
  const closing = new AbortController()
  const { signal } = closing
  let problems: readonly string[] = []
  let previous: Snapshot | undefined
  let locate: Contents['locate'] = () => ({ file: '', line: 0, severity: 'warning', message: '' })

  async function putInForce(gathered: Contents): Promise<void> {
    const begin = performance.now()
    const loaded = await load(gathered, previous, deps)
    const compileMs = performance.now() - begin
    locate = gathered.locate
    problems = loaded.problems.map(formatProblem)
    await deps.publish(loaded.snapshot, loaded.resources, loaded.refused)
    deps.onPublished?.(compileMs)
    previous = loaded.snapshot
    deps.report(loaded.snapshot, problems)
  }

  /** The last state, while it could not be published to its end. */
  let waiting: Contents | undefined
  /** What the source has answered since. */
  let newer: Contents | undefined
  const ask = createSingleFlight(async () => {
    newer = await deps.source.next(signal)
  })

  /** Resolves when there is a newer state, or it is time to try again. */
  async function askOrRest(): Promise<void> {
    const rest = delay(retryMs, undefined, { signal, ref: false })
    rest.catch(() => {})
    await Promise.race([rest, ask().catch(() => rest)])
  }

  async function follow(): Promise<void> {
    // Much of a state, such as removals, is in force before its publishing fails: a newer one must not wait for that.
    if (newer === undefined) await (waiting === undefined ? ask() : askOrRest())
    const state = newer ?? waiting
    newer = undefined
    if (state === undefined) return
    try {
      await putInForce(state)
      waiting = undefined
    } catch (error) {
      waiting = state
      throw error
    }
  }

  try {
    await putInForce(await withAbort(deps.source.next(signal), deps.starting ?? signal))
  } catch (error) {
    closing.abort()
    throw error
  }
  const restMs = (failures: number) => (failures > 0 && waiting === undefined ? retryMs : 0)
  void repeat({ step: follow, restMs, onFault: deps.onFailure, signal })
  return {
    /** Whether the last change could not be published to its end. */
    isFailing: () => waiting !== undefined,
    /** The problems of the last load, as `file:line: severity: message`. */
    problems: () => problems,
    /** Where the source has a resource (`<kind>/<namespace>/<name>`); in a cluster, line 0. */
    locate: (resource: string) => locate(resource, [], ''),
    close: () => closing.abort(),
  }
}
