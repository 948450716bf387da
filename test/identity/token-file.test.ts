import { spawnSync } from 'node:child_process'
import { renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { queryObjects } from 'node:v8'
import { type Test, test } from 'tap'
import { noTokenFile, openTokenFile, parseTokenFile } from '../../src/identity/token-file.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** The callers of a file, in order, as `user group,group`. */
function callersOf(text: string): string[] {
  return [...parseTokenFile(text).callers.values()].map(
    ({ user, groups }) => `${user} ${groups.join(',')}`,
  )
}

test('a line has a token, a user, a uid and groups', async (t) => {
  for (const [line, caller] of [
    ['t,ada,1', 'ada '],
    ['t,ada,1,team-a', 'ada team-a'],
    ['t,ada,1,"team-a"', 'ada team-a'],
    ['t,ada,1,"team-a,team-b"', 'ada team-a,team-b'],
    ['t,ada,1,"team-a, team-b ,,"', 'ada team-a,team-b'],
    ['t,ada,1,""', 'ada '],
    ['t,ada,1,', 'ada '],
    ['t,ada,,"team-a"', 'ada team-a'],
    ['"t","ada","1","team-a"', 'ada team-a'],
    [' t , ada , 1 , team-a ', 'ada team-a'],
    ['t,"Lovelace, Ada",1', 'Lovelace, Ada '],
    ['t,"the ""countess""",1', 'the "countess" '],
    [
      't,system:serviceaccount:a:b,1,"system:authenticated"',
      'system:serviceaccount:a:b system:authenticated',
    ],
    ['t,ada,1,"team-a",more,columns', 'ada team-a'],
    ['t,ada,1,"team-a" ', 'ada team-a'],
    ['\ufefft,ada,1', 'ada '],
    ['\ufeff"t","ada","1"', 'ada '],
    ['!+-./~=,ada,1', 'ada '],
  ] as const) {
    t.strictSame(callersOf(line), [caller], line)
    t.strictSame(parseTokenFile(line).problems, [], line)
  }
})

test('both line endings are read, empty lines are skipped', async (t) => {
  t.strictSame(callersOf('a,ada,1\r\n\r\n# a comment, with commas\n  \nb,bob,2\n'), [
    'ada ',
    'bob ',
  ])
  t.strictSame(parseTokenFile(''), { callers: new Map(), problems: [] })
})

test('invalid lines are reported, the others are in force', async (t) => {
  const text = [
    'a,ada,1',
    'only-a-token',
    'b,bob',
    ',carol,3',
    'd,,4',
    'e,eve,5,"team-a',
    'f,fred,6,"team-a"x',
    'g,gus,7, "team-a,team-b"',
    'h,hal,8,te"am',
    'sk-tg-x,ivy,9',
    'a,joe,10',
    'k,kim,11',
    '"l,m",liz,12',
    'n o,nan,13',
    'ü,una,14',
    'p\u0000,pat,15',
  ].join('\n')
  const { problems } = parseTokenFile(text)
  t.strictSame(callersOf(text), ['ada ', 'kim '])
  t.strictSame(problems, [
    'line 2: needs token, user and uid',
    'line 3: needs token, user and uid',
    'line 4: needs token, user and uid',
    'line 5: needs token, user and uid',
    'line 6: quotes have to enclose a whole column',
    'line 7: quotes have to enclose a whole column',
    'line 8: quotes have to enclose a whole column',
    'line 9: quotes have to enclose a whole column',
    'line 10: a token that begins with sk- would be taken for an API key',
    'line 11: this token is already in an earlier line',
    ...[13, 14, 15, 16].map(
      (line) => `line ${line}: a token has to be visible ASCII without blanks and commas`,
    ),
  ])
  t.notMatch(problems.join(), /only-a-token|sk-tg-x/, 'no token is shown')
})

test('groups without quotes around all of them are reported', async (t) => {
  const text = 'a,ada,1,team-a,team-b\nb,bob,2,"team-a",more\nc,carol,3,team-a,'
  t.strictSame(callersOf(text), ['ada team-a', 'bob team-a', 'carol team-a'])
  t.strictSame(parseTokenFile(text).problems, [
    'line 1: only the first group counts: several groups need quotes around all of them',
  ])
})

test('a name with a NUL, or not in UTF-8, is reported', async (t) => {
  const { callers, problems } = parseTokenFile(
    'a,ad\0a,1\nb,bob,2,"team\0"\nc,m\ufffdller,3\nd,da\tve,4,"one,\ttwo"\n',
  )
  t.equal(callers.size, 1)
  t.strictSame([...callers.values()][0]?.groups, ['one', 'two'])
  t.strictSame(problems, [
    'line 1: a name must not have a NUL character',
    'line 2: a name must not have a NUL character',
    'line 3: is not UTF-8: save the file in that encoding',
  ])
})

test('tokens are not stored in plain text', async (t) => {
  const { callers } = parseTokenFile('alice-token,ada,1')
  t.notMatch([...callers.keys()].join(), 'alice-token')
})

test('a hostile line is read quickly', async (t) => {
  const startedAt = process.cpuUsage()
  for (const line of [
    `${','.repeat(200_000)}`,
    `t,u,1,"${'""'.repeat(100_000)}`,
    `t,u,1,"${' '.repeat(100_000)}"x`,
  ])
    parseTokenFile(line)
  t.ok(process.cpuUsage(startedAt).user < 5_000_000)
})

function open(t: Test, path: string) {
  const problems: string[] = []
  const file = openTokenFile(path, (problem) => problems.push(problem))
  t.teardown(() => file.close())
  return { file, problems }
}

test('the file determines whose a token is', async (t) => {
  const path = join(temporaryFolder(t), 'tokens.csv')
  writeFileSync(path, 'alice-token,ada,1,"team-a"\nbad\n')
  const { file, problems } = open(t, path)
  t.strictSame(file.verify('alice-token'), {
    by: 'token',
    proof: { by: 'file' },
    user: 'ada',
    groups: ['team-a'],
  })
  for (const token of ['', 'Alice-token', 'alice-toke', 'alice-token ', 'ada', 'constructor']) {
    t.equal(file.verify(token), null, token)
  }
  t.strictSame(problems, [`${path}, line 2: needs token, user and uid`])
})

test('the service does not start without its token file', async (t) => {
  t.throws(() => openTokenFile(join(temporaryFolder(t), 'none.csv'), () => {}), { code: 'ENOENT' })
})

test('a file without tokens is reported, at the start and later', async (t) => {
  const path = join(temporaryFolder(t), 'tokens.csv')
  writeFileSync(path, '\ufeff# none yet\n')
  const { file, problems } = open(t, path)
  const none = `${path} has no tokens: no identity token is valid by it`
  t.strictSame(problems, [none])
  writeFileSync(path, 'a,ada,1\n')
  await poll(() => file.verify('a') !== null, 'the token is there')
  writeFileSync(path, '')
  await poll(() => problems.length > 1, 'the empty file is reported')
  t.strictSame(problems, [none, none])
})

test('a change takes effect, also by rename', async (t) => {
  const path = join(temporaryFolder(t), 'tokens.csv')
  writeFileSync(path, 'a,ada,1\n')
  const { file } = open(t, path)
  const believed = (token: string) => file.verify(token) !== null
  writeFileSync(path, 'a,ada,1\nb,bob,2\n')
  await poll(() => believed('b'), 'a change in place')
  writeFileSync(`${path}.new`, 'c,carol,3\n')
  renameSync(`${path}.new`, path)
  await poll(() => believed('c'), 'a change by rename')
  t.equal(believed('a'), false, 'removed tokens are refused')
})

test('while a file is being written its tokens stay in force', async (t) => {
  const path = join(temporaryFolder(t), 'tokens.csv')
  writeFileSync(path, 'a,ada,1\nb,bob,2\n')
  const { file, problems } = open(t, path)
  let refused = 0
  for (let i = 0; i < 40; i += 1) {
    writeFileSync(path, i % 2 === 0 ? '' : 'a,ada,1\nb,')
    await sleep(25)
    if (file.verify('a') === null || file.verify('b') === null) refused += 1
  }
  writeFileSync(path, 'a,ada,1\nb,bob,2\nc,carol,3\n')
  await poll(() => file.verify('c') !== null, 'the whole file has been read')
  t.strictSame([refused, problems], [0, []])
})

test('a file that changes all the time is read, too', async (t) => {
  const path = join(temporaryFolder(t), 'tokens.csv')
  writeFileSync(path, 'a,ada,1\n')
  const { file } = open(t, path)
  let lines = 'b,bob,2\n'
  const writing = setInterval(() => {
    lines += '# still\n'
    writeFileSync(path, lines)
  }, 100)
  t.teardown(() => clearInterval(writing))
  await poll(() => file.verify('b') !== null, 'it has been read')
  t.equal(file.verify('a'), null)
})

test('if the file disappears, its tokens stay in force', async (t) => {
  const path = join(temporaryFolder(t), 'tokens.csv')
  writeFileSync(path, 'a,ada,1\n')
  const { file, problems } = open(t, path)
  rmSync(path)
  await poll(() => problems.length > 0, 'the missing file is reported')
  t.match(problems, [/cannot be read; the tokens read before stay in force/])
  t.match(file.verify('a'), { user: 'ada' })
  writeFileSync(path, 'b,bob,2\n')
  await poll(() => file.verify('b') !== null, 'the file has been read again')
  t.equal(file.verify('a'), null)
})

test('a change that could not be read is read later', async (t) => {
  const path = join(temporaryFolder(t), 'tokens.csv')
  writeFileSync(path, 'kept,ada,1\nremoved,bob,2\n')
  const script = `
    import { closeSync, openSync, renameSync, writeFileSync } from 'node:fs'
    import { setTimeout as delay } from 'node:timers/promises'
    import { openTokenFile } from '${new URL('../../src/identity/token-file.ts', import.meta.url)}'
    const problems = []
    const file = openTokenFile(process.argv[1], (problem) => problems.push(problem))
    writeFileSync(process.argv[1] + '.new', 'kept,ada,1\\n')
    const descriptors = []
    try {
      while (true) descriptors.push(openSync('/dev/null'))
    } catch {}
    renameSync(process.argv[1] + '.new', process.argv[1])
    while (problems.length === 0) await delay(10)
    await delay(1_200)
    for (const each of descriptors) closeSync(each)
    const giveUpAt = performance.now() + 10_000
    while (file.verify('removed') !== null && performance.now() < giveUpAt) await delay(10)
    console.log(file.verify('removed'), problems.length)
    file.close()`
  const run = 'ulimit -n 64; exec "$0" --input-type=module -e "$1" "$2"'
  const { stdout, stderr } = spawnSync('/bin/sh', ['-c', run, process.execPath, script, path], {
    encoding: 'utf8',
    timeout: 30_000,
  })
  t.equal(stdout, 'null 1\n', stderr)
})

test('a mounted Secret is followed through its link', async (t) => {
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'first.csv'), 'a,ada,1\n')
  writeFileSync(join(folder, 'second.csv'), 'b,bob,2,"team-b"\n')
  symlinkSync('first.csv', join(folder, 'tokens.csv'))
  const { file } = open(t, join(folder, 'tokens.csv'))
  symlinkSync('second.csv', join(folder, 'next'))
  renameSync(join(folder, 'next'), join(folder, 'tokens.csv'))
  await poll(() => file.verify('b') !== null, 'the new Secret has been read')
})

test('without a file no token is accepted', async (t) => {
  for (const token of ['', 'a', 'alice-token']) t.equal(noTokenFile(token), null)
})

test('the names of a caller do not retain the text of the file', (t) => {
  const retained = () => {
    // It collects garbage first.
    queryObjects(Map, { format: 'count' })
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
  const before = retained()
  const names: string[] = []
  for (let i = 0; i < 30; i += 1) {
    const line = `token-${i},${i}-a-user-with-a-long-name,1,"${i}-a-group-with-a-long-name"`
    const { callers } = parseTokenFile(`${'# comment\n'.repeat(50_000)}${line}`)
    for (const { user, groups } of callers.values()) names.push(user, ...groups)
  }
  const bytes = retained() - before
  t.strictSame(names.slice(0, 2), ['0-a-user-with-a-long-name', '0-a-group-with-a-long-name'])
  t.ok(bytes < 5_000_000, `${bytes} bytes`)
  t.end()
})
