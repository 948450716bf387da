import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { writeBundle } from './bundle.ts'

const cache = join(packageRoot, 'node_modules', '.cache', 'tollgate')
const dayMs = 86_400_000
const entry = join(packageRoot, 'src', 'cli', 'main.js')

/**
 * The path of a `src/cli/main.js` that has the service and its packages in a few files, created once after each change
 * of the sources. Finding and loading its 1,200 files takes a third of the CPU time of a process that serves, and a run
 * of all tests starts some 130.
 */
export async function bundleService(): Promise<string> {
  const folder = join(cache, `service-${markOf()}`)
  if (!existsSync(folder)) {
    removeEarlier()
    await writeBundle(folder, {
      plugins: [{ name: 'places', enforce: 'pre', transform: keepPlace }],
      // Its page consists of files beside it.
      ssr: { noExternal: true, external: ['@fastify/swagger-ui'] },
      build: {
        ssr: entry,
        rolldownOptions: {
          output: { entryFileNames: 'main.mjs', chunkFileNames: '[name]-[hash].mjs' },
        },
      },
    })
  }
  return join(folder, 'main.mjs')
}

/** Every source that may be in it. */
function markOf(): string {
  const hash = createHash('sha256')
  for (const file of [
    ...['package-lock.json', 'test/support/bundle.ts', 'test/support/service-bundle.ts'],
    ...globSync('{src,dev}/**/*.{js,ts}', { cwd: packageRoot }).sort(),
  ]) {
    hash.update(`${file}\n`).update(readFileSync(join(packageRoot, file)))
  }
  return hash.digest('hex').slice(0, 12)
}

/** Paths that a source derives from its own: workers, migrations and templates stay where they were. */
function keepPlace(code: string, id: string): string | undefined {
  if (!id.startsWith(packageRoot) || !code.includes('import.meta.')) return undefined
  return code
    .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href))
    .replaceAll('import.meta.dirname', JSON.stringify(dirname(id)))
}

/** Another run may be using a newer one. */
function removeEarlier(): void {
  for (const name of globSync('service-*', { cwd: cache })) {
    const each = join(cache, name)
    if (Date.now() - statSync(each).mtimeMs > dayMs) rmSync(each, { recursive: true, force: true })
  }
}
