/** `tollgate check <folder>`: every problem of the resource files, by file and line. */

import { loadSnapshot } from '../controller/controller.ts'
import { showProblem } from '../controller/files.ts'

/** Prints the problems and answers the exit status: 1 when there is one, 2 for a wrong call. */
export async function check(args: readonly string[]): Promise<number> {
  const [folder, ...rest] = args
  if (folder === undefined || rest.length > 0) {
    console.error('Usage: tollgate check <folder>')
    return 2
  }
  try {
    const { snapshot, problems } = await loadSnapshot(folder)
    for (const problem of problems) console.error(showProblem(problem))
    const { models, policies, subscriptions } = snapshot
    console.log(
      `${models.size} models, ${policies.length} access policies, ` +
        `${subscriptions.size} subscriptions, ${problems.length} problems`,
    )
    return problems.length > 0 ? 1 : 0
  } catch {
    console.error(`${folder} can not be read; name a folder of YAML files`)
    return 1
  }
}
