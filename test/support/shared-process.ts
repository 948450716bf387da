/**
 * Runs test files one after the other, each when the parent names it. Most of the cost of a small file is loading the
 * service and compiling it while it is new; here it is loaded once. Only the modules are shared: each file has its own
 * tests and environment.
 */
import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'

/** From the parent. */
export interface FileOrder {
  readonly file: string
  readonly limitMs: number
}

/** To the parent: output in TAP, then that the file has ended, and how much memory the process has. */
export type FileNews = { readonly tap: string } | { readonly endedWithBytes: number }

const shared = new URL('./shared-tap.ts', import.meta.url).href
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'tap' && context.parentURL !== shared
      ? { url: shared, format: 'module-typescript', shortCircuit: true }
      : next(specifier, context),
})
const { beginFile } = await import('./shared-tap.ts')
const environment = { ...process.env }

process.on('message', ({ file, limitMs }: FileOrder) => {
  const test = beginFile(file, limitMs, () => import(pathToFileURL(file).href))
  test.on('data', (chunk) => tell({ tap: String(chunk) }))
  test.on('end', () => {
    // It would report its limit while others run.
    test.setTimeout(0)
    for (const name in process.env) if (!(name in environment)) delete process.env[name]
    Object.assign(process.env, environment)
    tell({ endedWithBytes: process.memoryUsage.rss() })
  })
  test.runMain(() => {})
})

// No further file is named: whatever is open now was left open.
process.on('disconnect', () => {
  setTimeout(() => {
    console.error(`still open: ${process.getActiveResourcesInfo().join(', ')}`)
    process.exit(1)
  }, 5_000).unref()
})

function tell(news: FileNews): void {
  process.send?.(news)
}
