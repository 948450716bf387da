/**
 * The problems that one process has now: those conditions of alerts that two scrapes, some seconds apart, and requests
 * from outside can show.
 */

import { databaseProblem } from '../cluster/rules/enforcement.ts'

/** Figures of a scrape by series, `name{labels}`. */
export type Figures = ReadonlyMap<string, number>

export interface Observed {
  /** Why the process, or its Envoy, is not in service. */
  readonly down?: string | undefined
  readonly envoyDown?: string | undefined
  /** Why the database does not respond. */
  readonly databaseError?: string | undefined
  /** The unavailable parts according to `/readyz`. */
  readonly degraded: readonly string[]
  readonly before: Figures
  readonly now: Figures
  /** Silent processes that revocations wait for. */
  readonly silent: readonly string[]
  /** Seconds by which the clock of the database is ahead. */
  readonly aheadSeconds?: number | undefined
  /** Problems of the folder of the journal, one sentence each. */
  readonly journal: readonly string[]
  /** Days that certificates have left, by name. */
  readonly daysLeft: ReadonlyMap<string, number>
  /** Files of certificates that a start would refuse, one sentence each. */
  readonly unusable: readonly string[]
  /** Problems of resources, and resources that are not in force as written; one sentence each. */
  readonly problems: readonly string[]
  /** Models whose server has failed the last request, one sentence each. */
  readonly unreachable: readonly string[]
}

/** The details, possibly none, or undefined if the condition is not met. */
type Condition = (seen: Observed) => readonly string[] | undefined

const listed = (found: readonly string[]) => (found.length > 0 ? found : undefined)
const reason = (found: string | undefined) => (found === undefined ? undefined : [found])
const asListed = (part: string): string => `/readyz lists ${part}`
const figure = ({ now }: Observed, name: string): number => now.get(name) ?? 0

const left = (days: number): string => {
  const whole = Math.floor(days)
  return whole < 0 ? 'expired' : `${whole} ${whole === 1 ? 'day' : 'days'} left`
}

/** A gauge that is above `limit`, or a part that `/readyz` names. */
const above =
  (name: string, limit = 0, part = ''): Condition =>
  (seen) =>
    figure(seen, name) > limit
      ? [`${name} is ${figure(seen, name)}`]
      : reason(seen.degraded.includes(part) ? asListed(part) : undefined)

/** Series that match, and how much they have grown between the scrapes. */
const growth = ({ before, now }: Pick<Observed, 'before' | 'now'>, series: RegExp) =>
  [...now]
    .filter(([name]) => series.test(name))
    .map(([name, value]) => ({ name, by: value - (before.get(name) ?? 0) }))
    .filter(({ by }) => by > 0)

const grows =
  (series: RegExp): Condition =>
  (seen) =>
    listed(growth(seen, series).map(({ name, by }) => `${name} grew by ${by}`))

/** As `grows`, but since the process started: for problems that only a restart with other settings solves. */
const hasGrown =
  (series: RegExp): Condition =>
  ({ now }) =>
    listed(
      growth({ before: new Map(), now }, series).map(
        ({ name, by }) => `${name} is ${by} since the process started`,
      ),
    )

const sum = (seen: Observed, series: RegExp): number =>
  growth(seen, series).reduce((total, { by }) => total + by, 0)

const unread = 'tollgate_journal_unread_bytes'
const unflushed = 'tollgate_counters_unflushed'
const flushed = /^tollgate_redis_flush_counters_sum/
const modelErrors = /^tollgate_model_responses_total\{.*code="5.."/
/** The client left before the response began. */
const clientsGone = /^tollgate_model_responses_total\{.*code="0"/
const refused = 'store_.*|counters_unavailable|identity_unavailable|internal'
/** A certificate is late below so many days, a clock above so many seconds. */
const [daysLimit, clockLimit] = [14, 5]

/** In these outages Envoy asks about every request; that is not another finding. */
const outages = ['TollgateDatabaseAway', 'TollgateRedisAway', 'TollgateJournalFailing']
const closesTable = (seen: Observed): boolean =>
  outages.some((name) => alertConditions[name]?.(seen) !== undefined)

/** By alert, or by another section of the runbook. */
export const alertConditions: Readonly<Record<string, Condition>> = {
  TollgateDown: ({ down }) => reason(down),
  TollgateEnvoyDown: ({ envoyDown }) => reason(envoyDown),
  TollgateReplicaSilent: (seen) =>
    listed(seen.silent) ?? above('tollgate_replicas_silent', 0, 'replicas')(seen),
  TollgateEventLoopLate: (seen) =>
    above('nodejs_eventloop_lag_p99_seconds', 0.1)(seen) ??
    above('nodejs_eventloop_lag_max_seconds', 1)(seen),
  TollgateTableHitsFall: (seen) =>
    seen.now.get('tollgate_table_open') === 0 && !closesTable(seen)
      ? ['tollgate_table_open is 0']
      : undefined,
  TollgateStoreRefusals: grows(new RegExp(`^tollgate_checks_total\\{decision="(${refused})"`)),
  TollgateDatabaseAway: (seen) =>
    reason(seen.databaseError) ?? above('tollgate_database_away', 0, 'database')(seen),
  TollgateKeyAge: (seen) =>
    above('tollgate_key_age_seconds', 0.5 * figure(seen, 'tollgate_key_grace_seconds'))(seen),
  TollgateKeyFlood: grows(/^tollgate_key_store_refused_total/),
  TollgateRedisAway: above('tollgate_redis_away', 0, 'redis'),
  // Under load some counters always wait for the next flush, but fewer than were flushed between the two readings. With
  // one reading alone, since the start, Redis may have become unavailable just now.
  TollgateCountersUnflushed: (seen) => {
    const hasStopped = seen.before.get(unflushed) && sum(seen, flushed) < figure(seen, unflushed)
    return seen.before.size === 0 || hasStopped
      ? grows(new RegExp(`^${unflushed}`))(seen)
      : undefined
  },
  TollgateRedisLoss: grows(/^tollgate_redis_losses_total/),
  TollgateRevocationsPending: grows(/^tollgate_revocations_total\{state="pending"/),
  TollgateRevocationLogFailing: above('tollgate_revocation_log_failing', 0, 'revocation-log'),
  TollgateRevocationsReplayed: grows(/^tollgate_revocations_replayed_total/),
  TollgateUsageUnusable: grows(/^tollgate_usage_unusable_total/),
  TollgateUncountedCalls: hasGrown(/^tollgate_uncounted_calls_total/),
  TollgateJournalFailing: (seen) =>
    listed(seen.journal) ?? above('tollgate_journal_failing', 0, 'journal')(seen),
  TollgateJournalUnread: (seen) =>
    grows(new RegExp(`^${unread}`))(seen) && above(unread, 2 ** 20)(seen),
  TollgateJournalSkipped: grows(/^tollgate_journal_skipped_total/),
  TollgateLedgerFailing: above('tollgate_ledger_failing'),
  TollgateArchiveFailing: above('tollgate_archive_failing'),
  TollgateLedgerGaps: grows(/^tollgate_ledger_gaps_total/),
  TollgateSeriesOverflow: grows(/^authorized_hits_total\{.*overflow="true"/),
  TollgateNoModels: ({ now }) => (now.get('tollgate_models') === 0 ? [] : undefined),
  // During an outage of the database it is unknown which resources are in force elsewhere, which is no fault of a
  // document.
  TollgateResourceProblems: (seen) =>
    listed(
      seen.problems.filter(
        (each) => seen.databaseError === undefined || !each.includes(databaseProblem),
      ),
    ) ?? above('tollgate_resource_problems')(seen),
  TollgateResourcesFailing: above('tollgate_resources_failing', 0, 'resources'),
  TollgateModelsWaiting: above('tollgate_models_waiting'),
  TollgateModelFailing: (seen) =>
    listed(seen.unreachable) ?? grows(/^tollgate_model_failures_total/)(seen),
  TollgateModelErrors(seen) {
    const [errors, gone] = [sum(seen, modelErrors), sum(seen, clientsGone)]
    const all = sum(seen, /^tollgate_model_responses_total/)
    if (errors > 0.05 * all) return [`${errors} of ${all} responses`]
    return gone > 0.5 * all ? [`${gone} of ${all} clients left without a response`] : undefined
  },
  TollgateAuditLost: (seen) =>
    grows(/^tollgate_audit_lost_total/)(seen) ??
    reason(seen.degraded.includes('audit') ? asListed('audit') : undefined),
  TollgateAccessReviewsFailing: grows(/^tollgate_access_reviews_total\{result="failed"/),
  TollgateCertificateExpires: ({ unusable, daysLeft }) =>
    listed([
      ...unusable,
      ...[...daysLeft]
        .filter(([, days]) => days < daysLimit)
        .map(([name, days]) => `${name}: ${left(days)}`),
    ]),
  'Identity providers and the cluster': ({ degraded }) =>
    listed(degraded.filter((part) => part === 'oidc' || part === 'kubernetes').map(asListed)),
  'Time zones': ({ degraded }) =>
    listed(degraded.filter((part) => part === 'time-zones').map(asListed)),
  Clocks: ({ aheadSeconds = 0 }) =>
    Math.abs(aheadSeconds) > clockLimit
      ? [`the database is ${aheadSeconds.toFixed(1)} s ahead of this process`]
      : undefined,
}
