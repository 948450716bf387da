import { test } from 'tap'
import { runAt } from '../support/command.ts'
import { createDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a database that cannot be used is named by its setting, without the password', async (t) => {
  const url = await createDatabase(t)
  const other = (change: (url: URL) => void): string => {
    const changed = new URL(url)
    changed.password = 'pass-word'
    change(changed)
    return changed.href
  }
  const { password } = new URL(url)
  const written = (changed: URL) => {
    changed.password = password
  }
  const wrong = [
    [other((to) => to.searchParams.set('application_name', 'x')), 1, /password authentication/],
    [
      other((to) => {
        written(to)
        to.pathname = '/none'
      }),
      1,
      /database "none" does not exist/,
    ],
    [
      other((to) => {
        written(to)
        to.searchParams.set('sslmode', 'require')
      }),
      1,
      /SSL/,
    ],
    [other((to) => to.searchParams.set('sslrootcert', '/none.pem')), 1, /ENOENT.*none\.pem/],
    ['postgres://ann:pass-word@127.0.0.1:1/x', 3, /ECONNREFUSED/],
    ['postgres://ann:pass-word@nothing.invalid/x', 3, /ENOTFOUND|EAI_AGAIN/],
  ] as const
  const DATA_DIR = temporaryFolder(t)
  for (const [DATABASE_URL, status, reason] of wrong) {
    const env = { DATABASE_URL, DATA_DIR }
    for (const words of ['revocations', 'usage forget ann --yes', 'migrate --plan', 'migrate']) {
      const { status: ended, out, err } = await runAt({ env }, ...words.split(' '))
      t.equal(ended, status, `${words}: ${err}`)
      t.match(err, /^DATABASE_URL: the database cannot be used \(.*\)\.$/, words)
      t.match(err, reason)
      t.notMatch(out + err, 'pass-word')
      t.notMatch(out + err, password)
    }
    const from = ['migrate', '--from', DATABASE_URL, '--in-place', '--dry-run']
    t.match(await runAt({ env: { DATA_DIR } }, ...from), { status, err: /^--from: the database/ })
  }
})
