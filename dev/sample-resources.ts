import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withPathInErrors } from '../src/runtime/path-in-errors.ts'
import { sampleResourceFolder } from '../src/settings/sample.ts'
import { sampleModelServer } from './up-settings.ts'

/**
 * Writes the sample resources to `folder` with another address of the sample model server, so that
 * a second gateway can run beside the first on its own ports. Replaces existing files.
 */
export function writeSampleResources(folder: string, modelServerUrl: string): void {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const file of readdirSync(sampleResourceFolder)) {
    const text = readFileSync(join(sampleResourceFolder, file), 'utf8')
    const written = text.replaceAll(`http://${sampleModelServer}`, modelServerUrl)
    withPathInErrors(join(folder, file), () => writeFileSync(join(folder, file), written))
  }
}
