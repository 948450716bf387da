import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { writeBundle } from './bundle.ts'

const hooks = join(import.meta.dirname, 'tap-hooks.ts')

/**
 * The URL of tap as a single module, created once after each installation and change of the hooks: finding and loading
 * its 300 files takes a process more CPU time than most tests of a rule. It is in the scope of tap's packages, which
 * tap omits from stacks, and is removed with its installation.
 */
export async function bundleTap(): Promise<string> {
  const folder = join(packageRoot, 'node_modules', '@tapjs', 'bundle')
  const mark = createHash('sha256').update(readFileSync(hooks)).digest('hex').slice(0, 12)
  const bundle = join(folder, `tap-${mark}.mjs`)
  if (!existsSync(bundle)) {
    const config = {
      resolve: { alias: [{ find: /^async_hooks$/, replacement: hooks }] },
      ssr: { noExternal: true as const },
      build: {
        ssr: fileURLToPath(import.meta.resolve('tap')),
        rolldownOptions: { output: { entryFileNames: 'tap.mjs', codeSplitting: false } },
      },
    }
    await writeBundle(bundle, config, 'tap.mjs')
  }
  return pathToFileURL(bundle).href
}
