import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { BuildEnvironmentOptions, InlineConfig } from 'vite'

interface BundleConfig extends InlineConfig {
  readonly build: BuildEnvironmentOptions
}

/** Bundles for Node into `target`, atomically: the folder, or only the output file `made`. */
export async function writeBundle(target: string, config: BundleConfig, made = ''): Promise<void> {
  const { build } = await import('vite')
  mkdirSync(dirname(target), { recursive: true })
  const draft = mkdtempSync(`${target}-draft-`)
  try {
    await build({
      ...{ configFile: false, logLevel: 'error', ...config },
      build: { ...config.build, outDir: draft, target: 'node24' },
    })
    // Two runs may write it concurrently.
    if (!existsSync(target)) renameSync(join(draft, made), target)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}
