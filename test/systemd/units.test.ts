import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { packageRoot } from '../../src/runtime/package-root.ts'

const read = (file: string) => readFileSync(join(packageRoot, 'systemd', file), 'utf8')
const units = ['tollgate@.service', 'tollgate-envoy.service'].map(read)

/** The settings of a unit that confine it. */
function confinement(unit: string): string[] {
  const names =
    /^(Protect|Private|Lock|NoNew|SystemCall)\w+=|^Restrict(Namespaces|Realtime|SUIDSGID)=/
  return unit
    .split('\n')
    .filter((line) => names.test(line))
    .sort()
}

test('both units are confined the same way', async (t) => {
  const [service = [], envoy] = units.map(confinement)
  t.strictSame(service, envoy)
  for (const line of [
    'LockPersonality=yes',
    'NoNewPrivileges=yes',
    'RestrictNamespaces=yes',
    'SystemCallFilter=@system-service',
  ])
    t.ok(service.includes(line), line)
  for (const unit of units) t.match(unit, /^RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX/m)
})

test('the folder of the journal is in memory, and outlives each unit', async (t) => {
  const journal = /^USAGE_JOURNAL=(.*)$/m.exec(read('tollgate.env'))?.[1]
  t.equal(journal, '/run/tollgate/journal/usage.jsonl')
  for (const unit of units) {
    t.match(unit, /^RuntimeDirectory=tollgate$/m)
    t.match(unit, /^RuntimeDirectoryPreserve=yes$/m)
    t.match(unit, /^User=tollgate$/m, 'whose files its own are')
  }
})

test('restarts have a limit', async (t) => {
  for (const unit of units) t.match(unit, /^StartLimitIntervalSec=300\nStartLimitBurst=60$/m)
})

test('a process that fails at once is started again for as long as that lasts', async (t) => {
  const [service = ''] = units
  t.ok(Number(/^RestartSec=(\d+)$/m.exec(service)?.[1]) * 60 >= 300)
})

test('Envoy drains before it stops, for as long as a drain may take', async (t) => {
  const [, envoy = ''] = units
  t.match(envoy, /^ExecStop=-\/opt\/tollgate\/bin\/tollgate drain$/m)
  t.ok(Number(/^TimeoutStopSec=(\d+)$/m.exec(envoy)?.[1]) > 300)
  t.match(envoy, /^After=.*tollgate@80\.service/m)
})

test('the gateway listens where run.md says, until TLS is set', async (t) => {
  const address = /^GATEWAY_ADDRESS=(.*)$/m.exec(read('tollgate.env'))?.[1]
  t.equal(address, '127.0.0.1:8000')
  const page = readFileSync(join(packageRoot, 'docs', 'run.md'), 'utf8')
  t.ok(page.includes(`The gateway listens at \`${address}\`. **First TLS, then another address**`))
})
