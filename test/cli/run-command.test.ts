import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { renderCommands } from '../../docs/write-commands.ts'
import { rewordApiMessage } from '../../src/cli/command-words.ts'
import { commands, runners } from '../../src/cli/commands.ts'
import { isOption, parseCommand } from '../../src/cli/parse-command.ts'
import { errorMessage } from '../../src/runtime/error-message.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { runAt } from '../support/command.ts'
import { startAnswering } from '../support/list-api.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const { all, renamed } = commands
/** Those that run until they are stopped log JSON, and a shell reads no JSON. */
const withoutJson = ['up', 'serve', 'controller', 'completion']

test('every command has help, which names its flags', async (t) => {
  const listed = (await runAt({}, 'help')).out.replace(/\s+/g, ' ')
  for (const { name, summary, flags, operands = [] } of all) {
    const words = name.split(' ')
    t.ok(listed.includes(summary), `help lists ${name}`)
    const asked = [
      await runAt({}, ...words, '--help'),
      await runAt({}, 'help', ...words),
      await runAt({}, ...words, '-h', '--nothing'),
    ]
    for (const { status, out, err } of asked) {
      t.equal(status, 0, name)
      t.equal(err, '')
      t.match(out, `Usage: tollgate ${name}`)
      for (const flag of Object.keys(flags)) t.ok(out.includes(`--${flag}`), `${name} --${flag}`)
      for (const operand of operands) t.ok(out.includes(`<${operand.name}>`), name)
      t.ok(
        out.split('\n').every((line) => line.length <= 112 || name === 'serve'),
        `${name}: lines fit a terminal`,
      )
    }
    t.notMatch(summary, /\.$/)
    if (!withoutJson.includes(name)) t.ok(Object.hasOwn(flags, 'json'), `${name} --json`)
  }
})

test('every command refuses what it does not know, with the nearest name', async (t) => {
  for (const { name, flags } of all) {
    const words = name.split(' ')
    const unknown = await runAt({}, ...words, '--nothing-like-it')
    t.match(unknown, { status: 2, out: '' }, name)
    t.equal(
      unknown.err,
      `There is no flag "--nothing-like-it" of ${name}. See tollgate ${name} --help.`,
    )
    for (const [flag, each] of Object.entries(flags)) {
      if (flag.length < 4) continue
      const misspelt = `--${flag.slice(0, -2)}${flag.at(-1)}${flag.at(-2)}`
      if (Object.hasOwn(flags, misspelt.slice(2))) continue
      const { status, err } = await runAt({}, ...words, misspelt)
      t.equal(status, 2)
      t.match(err, `did you mean --${flag}?`)
      const wrong = await runAt({}, ...words, isOption(each) ? `--${flag}` : `--${flag}=1`)
      t.equal(wrong.status, 2, `${name} --${flag}`)
    }
  }
})

test('every command is run by something', async (t) => {
  t.strictSame([...runners.keys()].sort(), all.map(({ name }) => name).sort())
})

test('old names stay, and say the new one', async (t) => {
  const env = { TOLLGATE_TOKEN: 'x', TOLLGATE_URL: 'http://127.0.0.1:1' }
  for (const [old, now] of Object.entries(renamed)) {
    const operands = old.endsWith('forget') ? ['x'] : []
    const { status, err } = await runAt({ env }, ...old.split(' '), ...operands)
    t.not(status, 0)
    t.match(err.split('\n')[0], `tollgate ${old} is now tollgate ${now};`)
    t.match(await runAt({}, ...old.split(' '), '--help'), {
      status: 0,
      out: new RegExp(`^Usage: tollgate ${now}`),
    })
  }
})

test('words that are no command are answered in one line', async (t) => {
  for (const [words, sentence] of [
    [['lgoin'], /^There is no command "lgoin"; did you mean login\?/],
    [['usage', 'verfy'], /^There is no command "usage verfy"; did you mean usage verify\?/],
    [['usage', 'everything'], /^There is no place for "everything"/],
    [['help', 'nothing'], /^There is no command "nothing"\./],
    [['--json', 'usage'], /^Name the command before its flags\./],
    [['constructor'], /^There is no command "constructor"\./],
    [['key', '__proto__'], /^There is no command "key __proto__"\./],
    [['\u001b[31mx'], /^There is no command "\ufffd\[31mx"\./],
    [['x'.repeat(10_000)], /^There is no command "x{100}"\./],
  ] as const) {
    const { status, out, err } = await runAt({}, ...words)
    t.match({ status, out }, { status: 2, out: '' })
    t.match(err, sentence)
    t.match(err, / See tollgate[a-z ]* --help\.$/)
  }
})

test('wrong usage is 2, before anything is asked', async (t) => {
  const env = { TOLLGATE_URL: 'http://127.0.0.1:1', TOLLGATE_TOKEN: 'x', DATA_DIR: '/nonexistent' }
  for (const [words, sentence] of [
    ['limits --url nonsense', /^"nonsense" is no address/],
    ['limits --url ftp://gateway', /^"ftp:\/\/gateway" is no address/],
    ['usage --url http://127.0.0.1/?x', /is no address/],
    ['key list --url http://me:secret@127.0.0.1', /^The address must not contain a user/],
    ['login nonsense', /^"nonsense" is no address/],
    ['logout nonsense', /^"nonsense" is no address/],
    ['cleanup nonsense', /^<url> must be an address/],
    ['cleanup unix:relative', /^<url> must be an address/],
    ['cleanup --wait soon', /^--wait must be/],
    ['usage --from 2026-03-02 --to 2026-03-01', /^--from must be before --to/],
    ['usage --from 1d --to 2d', /^--from must be before --to/],
    ['usage verify --from 2026-03-02 --to 2026-03-01', /^--from must be before --to/],
    ['simulate examples/resources --from 1d --to 2d', /^--from must be before --to/],
    ['simulate examples/resources --since 1d --from 2d', /^Give either --since/],
    ['explain llm/sim --group team-a', /^--group needs --user/],
    ['explain llm/sim --user ann --key id', /^Either --user or --key/],
    ['key new x --expires 30', /^--expires needs a unit, as in 30d, 12h, 2h30m or 30s\./],
    ['key rotate x --overlap 24', /^--overlap needs a unit/],
    ['key rotate x --end-old-after-first-use 1', /^--end-old-after-first-use needs a unit/],
    ['explain', /^Give the <model>, --path or --request/],
    ['migrate --tenant x', /^--tenant needs --from/],
    ['envoy-config --write --validate', /^Either --write or --validate/],
    ['demo --requests many', /^--requests must be/],
    ['key new x --label x', /^Write a label as/],
    ['key revoke', /^Name the ids/],
    ['limits --user ann --key id', /--key/],
    ['increases grant --limit x', /^Give --limit, --to/],
  ] as const) {
    const { status, out, err } = await runAt({ env }, ...words.split(' '))
    t.match({ status, out, err }, { status: 2, out: '', err: sentence }, words)
    t.match(err, / See tollgate .*--help\.$/, words)
    t.notMatch(err, 'secret')
  }
  const { status, err } = await runAt({ env: { ...env, TOLLGATE_URL: 'nonsense' } }, 'limits')
  t.match({ status, err }, { status: 1, err: /^TOLLGATE_URL: "nonsense" is no address/ })
})

test('what nothing answers is 3', async (t) => {
  const gone = 'http://127.0.0.1:1'
  const env = { TOLLGATE_URL: gone, TOLLGATE_TOKEN: 'x', DATABASE_URL: 'postgres://127.0.0.1:1/x' }
  for (const words of [
    ['limits'],
    ['usage'],
    ['usage', 'forget', 'ann', '--yes'],
    ['explain', 'llm/sim'],
    ['key', 'list'],
    ['cleanup', gone],
    ['revocations'],
    ['migrate', '--plan'],
    ['demo'],
  ]) {
    const { status, err } = await runAt({ env }, ...words)
    t.equal(status, 3, `${words.join(' ')}: ${err}`)
  }
})

test('messages of the API are in the words of the command', async (t) => {
  const said = (name: string, message: string) => {
    const command = all.find((each) => each.name === name)
    return command && rewordApiMessage(command, message)
  }
  for (const [name, message, expected] of [
    ['key new', 'expiresIn must be at most 90 days.', '--expires must be at most 90 days.'],
    ['key new', 'name must not be empty.', '<name> must not be empty.'],
    [
      'key new',
      'tokenRateLimits[0].limit is no number.',
      'limit in the first --token-limit is no number.',
    ],
    ['key new', 'limits.1.of must be one of …', 'of in the second --limit must be one of …'],
    ['key new', 'limits.0 must have …', 'the first --limit must have …'],
    ['key new', 'No subscription is yours.', 'No subscription is yours.'],
    ['key new', 'subscription must be a string.', '--subscription must be a string.'],
    ['key list', 'filters.keyPrefix must be …', '--prefix must be …'],
    ['usage', 'group_by may name only one label.', '--by may name only one label.'],
    [
      'limit-requests approve',
      'until must not be beyond what was asked for; POST /v1/admin/increases gives more.',
      '--until must not be beyond what was asked for; tollgate increases grant gives more.',
    ],
    ['usage', 'from must be before to.', '--from must be before to.'],
    ['usage', 'format=focus is for administrators.', '--focus is for administrators.'],
    ['explain', 'Give either keyId, or user and groups.', 'Give either --key, or user and groups.'],
    ['explain', 'user and groups belong together.', '--user and groups belong together.'],
    ['limits', 'Name either user or key_id.', 'Name either user or --key.'],
  ]) {
    t.equal(said(name as string, message as string), expected)
  }
})

test('docs/commands.md is up to date', async (t) => {
  const kept = readFileSync(new URL('../../docs/commands.md', import.meta.url), 'utf8')
  t.equal(kept, renderCommands(), 'npm run commands')
})

test('documents write commands as they are', async (t) => {
  const folders = ['', 'docs/', 'envoy/', 'bench/']
  const documents = folders.flatMap((folder) =>
    readdirSync(join(packageRoot, folder))
      .filter((name) => name.endsWith('.md') && name !== 'CHANGELOG.md')
      .map((name) => `${folder}${name}`),
  )
  let count = 0
  for (const path of documents.filter((name) => name !== 'docs/commands.md')) {
    const text = readFileSync(join(packageRoot, path), 'utf8').replace(/\\\n\s*/g, ' ')
    const lines = /(?:^|[`(\s])(?:npx |bin\/)?tollgate ([a-z][^`\n#>]*)/gm
    for (const [written, line = ''] of text.matchAll(lines)) {
      // In a text only what is written as code.
      if (!written.startsWith('`') && !/^(npx |bin\/)/.test(written.trim())) continue
      const words = (line.match(/'[^']*'|"[^"]*"|[^\s'"|;)]+/g) ?? []).filter(
        (word) => word !== '…',
      )
      const end = words.findIndex((word) => ['&&', '||', '&', '>', '2>&1'].includes(word))
      count += 1
      // A text may name a command or a flag without what follows it.
      t.notMatch(
        refusalOf(words.slice(0, end < 0 ? undefined : end)),
        /^There is no|cannot be/,
        `${path}: tollgate ${line}`,
      )
    }
  }
  t.ok(count > 50, `${count} commands`)
})

test('what a gateway says acts on no terminal', async (t) => {
  const text = '\x1b]0;title\x07\x1b[2J\u009b31m\u202egnp\u{e0061}\n'
  const row = {
    ...{ key: text, id: text, name: text, username: text, message: text, status: text },
    ...{ subscription: text, createdAt: text, expiresAt: text, lastUsedAt: text },
  }
  const used = { answers: 1, input_tokens: 1, output_tokens: 1, total_tokens: 1 }
  const left = { remaining: 2, resetsAt: text, subscription: text, model: text }
  const limit = { kind: text, window: text, limit: 3, used: 1, most: 2, ...left }
  const span = { from: text, to: text, first_at: text, last_at: text }
  const answer = {
    ...{ ...row, ...span, propagation: { state: 'pending', waitingFor: [text] } },
    ...{ data: [{ ...row, ...used, ...limit, model: text, user: text }], gaps: [span] },
    ...{ allowed: false, status: 403, code: text, limits: [limit], policies: [], changesAt: text },
    steps: [{ step: text, passed: true, resource: { kind: text, name: text, file: text } }],
    subscriptions: [{ kind: text, name: text, passedOver: text }],
    ...{ answers: 1, refused: 1, more_refusals: 0, problems: [text] },
    refusals: [{ ...span, user: text, subscription: text, model: text, reason: text, requests: 1 }],
    not_judged: [{ ...span, kind: text, window: text }],
  }
  const { url } = await startAnswering(t, 200, answer)
  const env = { TOLLGATE_URL: url, TOLLGATE_TOKEN: 'x' }
  const lines = ['key new x', 'key list', 'key rotate x', 'key revoke x', 'key revoke --all --yes']
  const others = [
    'explain m',
    'usage',
    'limits',
    `simulate ${join(packageRoot, 'examples/resources')}`,
  ]
  for (const line of [...lines, ...others]) {
    for (const more of [[], ['--json']]) {
      const { out, err } = await runAt({ env }, ...line.split(' '), ...more)
      t.notMatch(out + err, /[^\P{Cc}\n]|\p{Cf}/u, `${line} ${more}`)
      if (more.length > 0)
        t.ok(JSON.stringify(JSON.parse(out)).includes(JSON.stringify(text)), line)
    }
  }
})

test('names of files act on no terminal', async (t) => {
  const folder = temporaryFolder(t, { 'a\x1b[2J.yaml': 'kind: Nothing' })
  for (const command of ['check', 'simulate']) {
    const { err, status } = await runAt({ env: {} }, command, folder)
    t.equal(status, 1)
    t.match(err, /^a\ufffd\[2J\.yaml:1: error: /m, command)
  }
})

function refusalOf(words: readonly string[]): string {
  try {
    parseCommand(words, commands)
    return ''
  } catch (error) {
    return errorMessage(error)
  }
}
