/** The loop: gather → compile → publish → report. */

import { showPath } from '../core/fields.ts'
import { compile, type Snapshot } from '../core/snapshot.ts'
import type { FileProblem } from './documents.ts'
import { readFolder, showProblem, watchFolder } from './files.ts'

export interface ControllerDeps {
  readonly folder: string
  /** Puts a snapshot in force; the next one waits until it has settled. */
  readonly publish: (snapshot: Snapshot) => Promise<void>
  readonly report: (snapshot: Snapshot, problems: readonly string[]) => void
  /** A change could not be read or published; what was published last stays in force. */
  readonly onFailure: (error: unknown) => void
}

/** Milliseconds until a change that could not be put in force is tried again. */
const retryMs = 2_000

export interface Controller {
  /** What was wrong at the last load, as `file:line: severity: message`. */
  problems(): readonly string[]
  close(): void
}

/** The folder as a Snapshot, with all that is wrong in it, sorted by place. */
export async function loadSnapshot(
  folder: string,
): Promise<{ readonly snapshot: Snapshot; readonly problems: readonly FileProblem[] }> {
  const content = await readFolder(folder)
  const snapshot = compile(content.resources)
  const located = snapshot.problems.map(({ resource, path, message }) =>
    content.locate(resource, path, `${showPath(path)} ${message}`),
  )
  const problems = [...content.problems, ...located].sort((a, b) =>
    a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line,
  )
  return { snapshot, problems }
}

/** Publishes the folder once, then again after each change. Throws when the first load fails. */
export async function startController(deps: ControllerDeps): Promise<Controller> {
  let problems: readonly string[] = []
  let retry: NodeJS.Timeout | undefined

  async function load(): Promise<void> {
    const loaded = await loadSnapshot(deps.folder)
    await deps.publish(loaded.snapshot)
    problems = loaded.problems.map(showProblem)
    deps.report(loaded.snapshot, problems)
  }

  async function reload(): Promise<void> {
    clearTimeout(retry)
    try {
      await load()
    } catch (error) {
      deps.onFailure(error)
      retry = setTimeout(() => void reload(), retryMs).unref()
    }
  }

  // Watching begins first: a change made while the first load reads must not be missed.
  const watcher = await watchFolder(deps.folder, reload)
  try {
    await load()
  } catch (error) {
    watcher.close()
    throw error
  }
  return {
    problems: () => problems,
    close() {
      watcher.close()
      clearTimeout(retry)
    },
  }
}
