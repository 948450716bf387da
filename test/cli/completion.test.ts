import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { runAt } from '../support/command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const hasShell = (shell: string) => spawnSync(shell, ['-c', 'true']).status === 0
const skipUnless = (shell: string) => !hasShell(shell) && `no ${shell}`

async function scriptFile(t: Test, shell: string): Promise<string> {
  const folder = temporaryFolder(t)
  const path = join(folder, 'tollgate')
  const { status, out } = await runAt({}, 'completion', shell)
  t.equal(status, 0)
  writeFileSync(path, `${out}\n`)
  mkdirSync(join(folder, 'resources'))
  return path
}

/** What Tab offers after these words; the last one is what is typed of the next. */
const expected: readonly (readonly [readonly string[], readonly string[]])[] = [
  [['k'], ['key']],
  [
    ['key', 'r'],
    ['revoke', 'rotate'],
  ],
  [['key', 'new', '--sub'], ['--subscription']],
  [['key', 'new', 'laptop', '--eph'], ['--ephemeral']],
  [
    ['key', 'list', '--status', ''],
    ['active', 'expired', 'revoked'],
  ],
  [['completion', 'f'], ['fish']],
  [['usage', 'v'], ['verify']],
  [['usage', '--foc'], ['--focus']],
  [['usage', '--by', 'h'], ['hour']],
]

test('bash completes commands, flags and values', { skip: skipUnless('bash') }, async (t) => {
  const path = await scriptFile(t, 'bash')
  const complete = (words: readonly string[]) => {
    const script = [
      `source ${path}`,
      `COMP_WORDS=(tollgate ${words.map((word) => `'${word}'`).join(' ')})`,
      `COMP_CWORD=${words.length}`,
      '_tollgate',
      `printf '%s\\n' "$${'{COMPREPLY[@]}'}"`,
    ].join('\n')
    const { stdout, stderr } = spawnSync('bash', ['-c', script], {
      encoding: 'utf8',
      cwd: join(path, '..'),
    })
    t.equal(stderr, '')
    return stdout.trim().split('\n').sort()
  }
  for (const [words, offered] of expected) t.strictSame(complete(words), offered, words.join(' '))
  t.strictSame(complete(['check', 'res']), ['resources'], 'a folder')
})

test('zsh reads the script', { skip: skipUnless('zsh') }, async (t) => {
  const path = await scriptFile(t, 'zsh')
  const script = `autoload -U compinit && compinit -D; source ${path}; print $_comps[tollgate]`
  const { stdout, stderr } = spawnSync('zsh', ['-f', '-c', script], { encoding: 'utf8' })
  t.equal(stderr, '')
  t.match(stdout, /_tollgate|_bash_complete/)
})

test('fish completes commands, flags and values', { skip: skipUnless('fish') }, async (t) => {
  const path = await scriptFile(t, 'fish')
  const complete = (words: readonly string[]) => {
    const line = ['tollgate', ...words].join(' ')
    const env = { ...process.env, HOME: join(path, '..'), XDG_CONFIG_HOME: join(path, '..') }
    const { stdout, stderr } = spawnSync(
      'fish',
      ['--no-config', '-c', `source ${path}; complete -C '${line}'`],
      { encoding: 'utf8', env, cwd: join(path, '..') },
    )
    t.equal(stderr, '')
    return stdout
      .trim()
      .split('\n')
      .map((row) => row.split('\t')[0])
      .sort()
  }
  for (const [words, offered] of expected) t.strictSame(complete(words), offered, words.join(' '))
})
