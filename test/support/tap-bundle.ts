import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { packageRoot } from '../../src/runtime/package-root.ts'

const hooks = join(import.meta.dirname, 'tap-hooks.ts')

/**
 * The URL of tap as a single module, made once after each installation and change of the hooks: to find and load its 300 files
 * takes a process more CPU time than most tests of a rule. It is in the scope of tap's packages, which tap leaves out of
 * stacks, and ends with the installation that it was made from.
 */
export async function bundleTap(): Promise<string> {
  const folder = join(packageRoot, 'node_modules', '@tapjs', 'bundle')
  const mark = createHash('sha256').update(readFileSync(hooks)).digest('hex').slice(0, 12)
  const bundle = join(folder, `tap-${mark}.mjs`)
  if (!existsSync(bundle)) await writeBundle(folder, bundle)
  return pathToFileURL(bundle).href
}

async function writeBundle(folder: string, bundle: string): Promise<void> {
  const { build } = await import('vite')
  mkdirSync(folder, { recursive: true })
  const draft = mkdtempSync(join(folder, 'draft-'))
  try {
    await build({
      configFile: false,
      logLevel: 'error',
      resolve: { alias: [{ find: /^async_hooks$/, replacement: hooks }] },
      ssr: { noExternal: true },
      build: {
        ssr: fileURLToPath(import.meta.resolve('tap')),
        outDir: draft,
        target: 'node24',
        rolldownOptions: { output: { entryFileNames: 'tap.mjs', codeSplitting: false } },
      },
    })
    // Two runs may write it at a time.
    renameSync(join(draft, 'tap.mjs'), bundle)
  } finally {
    rmSync(draft, { recursive: true })
  }
}
