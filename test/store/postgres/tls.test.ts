import { join } from 'node:path'
import root from 'tap'
import { openPool } from '../../../src/store/postgres/postgres.ts'
import { makeCertificate, noOpenssl, selfSigned } from '../../support/certificates.ts'
import { createDatabase } from '../../support/database.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startTlsPostgres } from '../../support/tls-postgres.ts'

/** `tls`, `clear`, or why there is no connection. */
async function connect(url: string, settings: Record<string, string>): Promise<string> {
  const there = new URL(url)
  for (const [name, value] of Object.entries(settings)) there.searchParams.set(name, value)
  const sql = openPool({ url: there.href, connections: 1 })
  try {
    const [row] = await sql<{ ssl: boolean }[]>`
      select ssl from pg_stat_ssl where pid = pg_backend_pid()`
    return row?.ssl ? 'tls' : 'clear'
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return code ?? message
  } finally {
    await sql.end()
  }
}

root.test('sslmode works as documented', { skip: noOpenssl }, async (t) => {
  const own = makeCertificate(t)
  const { path: sslrootcert } = own
  const { path: other } = makeCertificate(t)
  const { url } = await startTlsPostgres(t, own)
  for (const [settings, expected] of [
    [{}, 'clear'],
    [{ sslmode: 'disable' }, 'clear'],
    [{ sslmode: 'prefer' }, 'tls'],
    [{ sslmode: 'require' }, 'tls'],
    [{ sslmode: 'require', sslrootcert }, 'tls'],
    [{ sslmode: 'require', sslrootcert: other }, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    [{ sslmode: 'verify-ca', sslrootcert }, 'tls'],
    [{ sslmode: 'verify-ca', sslrootcert: other }, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    [{ sslmode: 'verify-full', sslrootcert }, 'tls'],
    [{ sslmode: 'verify-full', sslrootcert: other }, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    [{ sslmode: 'verify-full' }, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    [{ sslmode: 'verify_full' }, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  ] as const) {
    t.equal(await connect(url, settings), expected, JSON.stringify(settings))
  }
  t.match(await connect(url, { sslmode: 'verify-ca' }), /requires specifying a CA/)
})

root.test('only verify-full checks the name', { skip: noOpenssl }, async (t) => {
  const folder = temporaryFolder(t)
  const own = selfSigned(folder, 'DNS:db.example')
  const sslrootcert = join(folder, 'cert.pem')
  const { url } = await startTlsPostgres(t, own)
  t.equal(
    await connect(url, { sslmode: 'verify-full', sslrootcert }),
    'ERR_TLS_CERT_ALTNAME_INVALID',
  )
  t.equal(await connect(url, { sslmode: 'verify-ca', sslrootcert }), 'tls')
})

root.test('there is no unencrypted connection to a server without TLS', async (t) => {
  const url = await createDatabase(t)
  for (const sslmode of ['prefer', 'require', 'verify-full']) {
    t.match(await connect(url, { sslmode }), /does not support SSL/, sslmode)
  }
})
