import { execFile, spawnSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'tap'
import { packageRoot } from '../src/runtime/package-root.ts'
import { temporaryFolder } from './support/temporary-folder.ts'

const patch = 'examples/walk-through/description-and-limits.patch'
const generated = ['docs/openapi.json', 'docs/resources.md', 'k8s/crds', 'k8s/chart']
/** What the last check of types found. */
const typesFound = '.tools/types.tsbuildinfo'
const renewal = `To renew the patch, in a clone without uncommitted changes:
  git apply --3way ${patch}
  # edit the files until the commands of CONTRIBUTING's walk-through succeed
  git add --all
  git diff --cached -U2 -- . ${generated.map((path) => `':!${path}'`).join(' ')} > ${patch}.new
  git reset --hard
  mv ${patch}.new ${patch}`

const read = (path: string): string => readFileSync(join(packageRoot, path), 'utf8')

/** Without the variables that git sets for its hooks, which name another repository. */
const env: NodeJS.ProcessEnv = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_')),
)

function whatIsMissing(): string | undefined {
  if (!existsSync(join(packageRoot, '.git'))) return 'not a clone: no .git'
  if (spawnSync('git', ['--version']).status !== 0) return 'no git'
  const isApplied = spawnSync('git', ['apply', '--reverse', '--check', patch], {
    cwd: packageRoot,
    env,
  })
  return isApplied.status === 0 ? 'the patch is applied already' : undefined
}

/** Copies what a commit of the working tree would contain. */
function copyTree(folder: string): void {
  // New files are copied only from folders of sources: a home or a cache in the clone may be huge.
  const folders = ['src', 'dev', 'test', 'docs', 'k8s']
  const listed = [['--cached'], ['--others', '--exclude-standard', '--', ...folders]]
  const stdout = listed
    .map((args) => spawnSync('git', ['ls-files', '-z', ...args], { cwd: packageRoot, env }).stdout)
    .join('')
  for (const file of stdout.split('\0').filter((name) => /[^/]$/.test(name))) {
    const source = join(packageRoot, file)
    if (existsSync(source)) cpSync(source, join(folder, file), { verbatimSymlinks: true })
  }
  symlinkSync(join(packageRoot, 'node_modules'), join(folder, 'node_modules'))
  if (existsSync(join(packageRoot, typesFound))) {
    cpSync(join(packageRoot, typesFound), join(folder, typesFound))
  }
}

/**
 * Returns a function that runs a program in this folder and resolves to undefined if it succeeds,
 * otherwise to its output.
 */
function createRun(folder: string) {
  const PATH = `${join(folder, 'node_modules', '.bin')}:${env.PATH}`
  const own = { ...env, PATH, GIT_CEILING_DIRECTORIES: dirname(folder) }
  return (program: string, ...args: readonly string[]): Promise<string | undefined> =>
    new Promise((settle) => {
      const options = { cwd: folder, env: own, maxBuffer: 2 ** 26 }
      execFile(program, args, options, (error, stdout) => {
        // The message contains stderr.
        const told = `${error?.message}\n${stdout.slice(-5_000)}\n${renewal}`
        settle(error === null ? undefined : told)
      })
    })
}

test('the walk-through applies and passes', { skip: whatIsMissing() ?? false }, async (t) => {
  const [, section = ''] = read('CONTRIBUTING.md').split('\n## A walk-through\n')
  const [, commands = ''] = /```sh\n(.*?)```/s.exec(section) ?? []
  const names = [...commands.matchAll(/npm run (\w+)/g)].map(([, name = '']) => name)
  const tests = [...commands.matchAll(/test\/\S+\.test\.ts/g)].map(([path]) => path)
  const changed = [...read(patch).matchAll(/^\+\+\+ b\/(.+)$/gm)].map(([, path = '']) => path)
  t.match(commands, `git apply ${patch}\n`)
  t.ok(names.includes('check'))
  for (const path of changed) {
    if (path.endsWith('.test.ts')) t.ok(tests.includes(path), `${path} is run`)
    t.notOk(
      generated.some((each) => path.startsWith(each)),
      `${path} is not generated`,
    )
  }

  const folder = temporaryFolder(t)
  copyTree(folder)
  const run = createRun(folder)
  if (!t.equal(await run('git', 'apply', patch), undefined, 'the patch applies')) return
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  for (const name of names.filter((each) => each !== 'check')) {
    t.equal(await run('sh', '-c', scripts[name] ?? 'false'), undefined, `npm run ${name}`)
  }
  // The other files are the same as here, where `npm test` checks their format.
  const sources = changed.filter((path) => path.endsWith('.ts'))
  t.equal(await run('biome', 'ci', ...sources), undefined, 'format and lint')
  // A second thread takes as long again to read the same; by its links' places the packages are those that were checked before.
  const tsc = await run('tsc', '--singleThreaded', '--preserveSymlinks')
  t.equal(tsc, undefined, 'types')
  // Most of the cost of a file is loading the service: only if one fails, each runs alone, to tell which.
  const inTurn = tests.map((path) => `await import('./${path}')`).join('\n')
  const loaded = ['--import', './test/support/preload.js', '--input-type=module', '--eval', inTurn]
  const together = await run(process.execPath, ...loaded)
  for (const path of tests) {
    t.equal(together && (await run(process.execPath, path)), undefined, path)
  }
})
