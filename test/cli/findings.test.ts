import { readFileSync } from 'node:fs'
import { test } from 'tap'
import { parse } from 'yaml'
import { alertConditions, type Observed } from '../../src/cli/findings.ts'

const quiet: Observed = {
  ...{
    degraded: [],
    silent: [],
    problems: [],
    unreachable: [],
    journal: [],
    daysLeft: new Map([['Envoy', Infinity]]),
    unusable: [],
  },
  ...{ before: new Map(), now: new Map() },
}
const textOf = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

/** The sections whose condition holds. */
const found = (seen: Partial<Observed>) =>
  Object.entries(alertConditions)
    .filter(([, holds]) => holds({ ...quiet, ...seen }) !== undefined)
    .map(([name]) => name)
const figures = (now: Readonly<Record<string, number>>) => ({ now: new Map(Object.entries(now)) })

test('every alert of one process has a condition', async (t) => {
  const { groups } = parse(textOf('monitoring/rules.yaml'))
  const alerts = groups
    .flatMap(({ rules }: { rules: { alert?: string }[] }) => rules)
    .flatMap(({ alert = '' }: { alert?: string }) => (alert ? [alert] : []))
  const elsewhere = ['TollgateCheckSlow', 'TollgateReplicas']
  const others = ['Clocks', 'Identity providers and the cluster', 'Time zones']
  t.strictSame(Object.keys(alertConditions).sort(), [
    ...[...alerts.filter((name: string) => !elsewhere.includes(name)), ...others].sort(),
  ])
  const runbook = textOf('docs/runbook.md')
  for (const name of elsewhere) t.match(runbook.slice(0, 2_000), name)
  for (const name of others) t.match(runbook, `\n## ${name}\n`)
})

test('conditions name metrics that rules have', async (t) => {
  const source = textOf('src/cli/findings.ts')
  const rules = textOf('monitoring/rules.yaml')
  const names = new Set(source.match(/\b(?:tollgate|authorized|nodejs)_\w+/g))
  t.ok(names.size > 20)
  for (const name of names) t.match(rules, name)
})

test('nothing is wrong with a quiet process', async (t) => {
  t.strictSame(found({}), [])
  const usual = {
    tollgate_models: 2,
    tollgate_key_age_seconds: 0.5,
    tollgate_key_grace_seconds: 300,
  }
  t.strictSame(found(figures({ ...usual, 'tollgate_checks_total{decision="allowed"}': 9 })), [])
})

test('each condition holds in its case alone', async (t) => {
  for (const [name, seen] of Object.entries<Partial<Observed>>({
    TollgateDown: { down: 'ECONNREFUSED' },
    TollgateEnvoyDown: { envoyDown: 'ECONNREFUSED' },
    TollgateDatabaseAway: { databaseError: 'ECONNREFUSED' },
    TollgateReplicaSilent: { silent: ['a'] },
    TollgateModelFailing: { unreachable: ['the last request to the server of llm/a failed'] },
    TollgateResourceProblems: { problems: ['models.yaml:3: error: …'] },
    TollgateCertificateExpires: { daysLeft: new Map([['cert.pem', 13.9]]) },
    Clocks: { aheadSeconds: -6 },
    'Identity providers and the cluster': { degraded: ['kubernetes'] },
    'Time zones': { degraded: ['time-zones'] },
    TollgateRedisAway: { degraded: ['redis'] },
    TollgateModelsWaiting: figures({ tollgate_models_waiting: 1 }),
    TollgateJournalFailing: { journal: ['/journal is missing'] },
    TollgateTableHitsFall: figures({ tollgate_table_open: 0 }),
    TollgateLedgerFailing: figures({ tollgate_ledger_failing: 1 }),
    TollgateResourcesFailing: {
      ...figures({ tollgate_resources_failing: 1 }),
      degraded: ['resources'],
    },
    TollgateNoModels: figures({ tollgate_models: 0 }),
    TollgateKeyAge: figures({ tollgate_key_age_seconds: 200, tollgate_key_grace_seconds: 300 }),
    TollgateStoreRefusals: figures({ 'tollgate_checks_total{decision="store_slow"}': 1 }),
    TollgateRevocationsPending: figures({ 'tollgate_revocations_total{state="pending"}': 1 }),
    TollgateModelErrors: figures({
      'tollgate_model_responses_total{model="llm/a",code="502"}': 1,
      'tollgate_model_responses_total{model="llm/a",code="200"}': 18,
    }),
    TollgateJournalUnread: figures({ tollgate_journal_unread_bytes: 2 ** 21 }),
    TollgateEventLoopLate: figures({ nodejs_eventloop_lag_p99_seconds: 0.2 }),
  })) {
    t.strictSame(found(seen), [name])
  }
})

test('clients that leave are no errors of a model, unless most do', async (t) => {
  const responses = (left: number) =>
    figures({
      'tollgate_model_responses_total{model="llm/a",code="0"}': left,
      'tollgate_model_responses_total{model="llm/a",code="200"}': 10,
    })
  t.strictSame(found(responses(9)), [])
  t.strictSame(found(responses(11)), ['TollgateModelErrors'])
})

test('an outage that closes the table is named alone', async (t) => {
  const closed = figures({ tollgate_table_open: 0 })
  t.strictSame(found({ ...closed, databaseError: 'ECONNREFUSED' }), ['TollgateDatabaseAway'])
  t.strictSame(found({ ...closed, degraded: ['redis'] }), ['TollgateRedisAway'])
  t.strictSame(found({ ...closed, journal: ['/journal is missing'] }), ['TollgateJournalFailing'])
})

test('what only the database would tell of resources is no problem of a document', async (t) => {
  const unknown =
    'AccessPolicy ns/team is Degraded: llm/a is not known to be enforced: Postgres does not answer'
  const databaseError = 'ECONNREFUSED'
  t.strictSame(found({ problems: [unknown], databaseError }), ['TollgateDatabaseAway'])
  t.strictSame(
    alertConditions.TollgateResourceProblems?.({
      ...quiet,
      problems: [unknown, 'a.yaml:3: error: …'],
      databaseError,
    }),
    ['a.yaml:3: error: …'],
  )
  t.strictSame(found({ problems: [unknown] }), ['TollgateResourceProblems'])
})

test('an audit trail that cannot be written matters until it can', async (t) => {
  t.strictSame(alertConditions.TollgateAuditLost?.({ ...quiet, degraded: ['audit'] }), [
    '/readyz lists audit',
  ])
})

test('a counter matters while it grows', async (t) => {
  const { now } = figures({ tollgate_audit_lost_total: 7 })
  t.strictSame(found({ now, before: now }), [])
  t.strictSame(alertConditions.TollgateAuditLost?.({ ...quiet, now }), [
    'tollgate_audit_lost_total grew by 7',
  ])
})

test('calls that were not counted matter as long as the process runs', async (t) => {
  const name = 'tollgate_uncounted_calls_total{operation="responses"}'
  const { now } = figures({ [name]: 4 })
  const seen = { ...quiet, now, before: now }
  t.strictSame(alertConditions.TollgateUncountedCalls?.(seen), [
    `${name} is 4 since the process started`,
  ])
  t.equal(
    alertConditions.TollgateUncountedCalls?.({ ...quiet, ...figures({ [name]: 0 }) }),
    undefined,
  )
})

test('counters that wait for their flush matter once they accumulate', async (t) => {
  const at = (unflushed: number) => new Map([['tollgate_counters_unflushed', unflushed]])
  t.strictSame(found({ before: at(0), now: at(1) }), [], 'under load one often waits')
  t.strictSame(found({ before: at(3), now: at(3) }), [])
  t.strictSame(found({ before: at(3), now: at(5) }), ['TollgateCountersUnflushed'])
  const flushes = 'tollgate_redis_flush_counters_sum'
  const with900 = at(3).set(flushes, 900)
  t.strictSame(found({ before: with900, now: at(40).set(flushes, 990) }), [], 'steady load')
  t.strictSame(found({ before: with900, now: at(400).set(flushes, 990) }), [
    'TollgateCountersUnflushed',
  ])
  const sinceStart = at(40).set(flushes, 990)
  t.strictSame(found({ now: sinceStart }), ['TollgateCountersUnflushed'], 'there is only one look')
})
