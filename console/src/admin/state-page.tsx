import { Alert } from '@mantine/core'
import type { ReactNode } from 'react'
import type { ReplicaState, ServiceState } from '../api.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Dot } from '../parts/dot.tsx'
import { Fact, Facts, LongFact } from '../parts/facts.tsx'
import { dateLocale } from '../parts/locale.ts'
import { count, duration } from '../parts/numbers.ts'
import { Page } from '../parts/page.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { Section } from '../parts/section.tsx'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'

const everyMs = 5_000

export function StatePage() {
  const { call } = useSession()
  const { value, at, error } = useLoaded(
    '',
    () => call<ServiceState>('GET', '/v1/admin/state'),
    everyMs,
  )
  return (
    <Page
      title="State"
      about={`The service and its dependencies, as seen by the process that responds; updated every ${everyMs / 1_000} seconds.`}
    >
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending shape="cards" />}
      {error && at !== undefined && (
        <p className="note" role="status">
          As of {new Date(at).toLocaleTimeString(dateLocale)}, the time of the last response.
        </p>
      )}
      {value && (
        <div className={error ? 'stale stack' : 'stack'}>
          <State {...value} />
        </div>
      )}
    </Page>
  )
}

function State(state: ServiceState) {
  const { replica, version, ready, degraded, resources, revocations, database } = state
  const { redis, journal, replicas, first_byte: firstByte } = state
  return (
    <>
      {degraded.length > 0 && (
        <Alert
          color="yellow"
          variant="outline"
          role="status"
          title={`Degraded: ${degraded.join(', ')}`}
        >
          Requests are still served as far as they can be.
        </Alert>
      )}
      <div className="packed">
        <Part title="Process" isWell={ready} words={['ready', 'not ready']}>
          <LongFact name="Name">{replica}</LongFact>
          <Fact name="Version">{version}</Fact>
          <Fact name="Resources since">{spanOf(resources.age_seconds)}</Fact>
          <Fact name="Models, policies, subscriptions">
            {resources.models}, {resources.policies}, {resources.subscriptions}
          </Fact>
          <Fact name="Resource problems">{count(resources.problems)}</Fact>
          <Fact name="Models that Envoy has not loaded">{count(resources.waiting_models)}</Fact>
          {firstByte && (
            <Fact name="Time to the first byte, median">{duration(firstByte.median_seconds)}</Fact>
          )}
        </Part>
        <Part title="Database" isWell={database.available} words={['available', 'unavailable']}>
          <Fact name="Keys confirmed">
            {database.key_age_seconds === undefined
              ? 'not yet'
              : `${spanOf(database.key_age_seconds)} ago`}
          </Fact>
          <Fact name="Cached keys work without it for">{spanOf(database.grace_seconds)}</Fact>
        </Part>
        <Part title="Revocations" isWell={!revocations.log_failing} words={['saved', 'not saved']}>
          <Fact name="Confirmed here">{count(revocations.confirmed)}</Fact>
          <Fact name="Pending">{count(revocations.pending)}</Fact>
          <Fact name="Last confirmation took">
            {revocations.last_confirmation_seconds === undefined
              ? 'none yet'
              : `${Math.round(revocations.last_confirmation_seconds * 1_000)} ms`}
          </Fact>
        </Part>
        <Part
          title="Calls"
          isWell={state.uncounted_calls === 0}
          words={['all counted', 'not all counted']}
        >
          <Fact name="Not counted since the start">{count(state.uncounted_calls)}</Fact>
        </Part>
        <Part
          title="Counters"
          isWell={redis?.available ?? true}
          words={redis ? ['Redis available', 'Redis unavailable'] : ['in memory', '']}
        >
          {redis && (
            <>
              <Fact name="Not in Redis yet">{count(redis.unflushed)}</Fact>
              <Fact name="Losses of data in Redis">{count(redis.losses)}</Fact>
            </>
          )}
        </Part>
        {journal && (
          <Part title="Usage journal" isWell={!journal.failing} words={['read', 'failing']}>
            <Fact name="Lines read">{count(journal.lines)}</Fact>
            <Fact name="Lines skipped">{count(journal.skipped)}</Fact>
            <Fact name="Unread bytes">{count(journal.unread_bytes)}</Fact>
          </Part>
        )}
      </div>
      {replicas && <Replicas replicas={replicas} />}
    </>
  )
}

interface PartProps {
  readonly title: string
  readonly isWell: boolean
  /** Colors for good and bad states. */
  readonly words: readonly [string, string]
  readonly children: ReactNode
}

function Part({ title, isWell, words, children }: PartProps) {
  return (
    <Facts
      title={title}
      badge={<Dot color={isWell ? 'green' : 'red'}>{words[isWell ? 0 : 1]}</Dot>}
    >
      {children}
    </Facts>
  )
}

/** A process that has not polled for this long counts as silent; seconds. */
const silentAfter = 5

const columns: readonly Column<ReplicaState>[] = [
  {
    title: 'Name',
    cell: ({ name, answers }) => (
      <>
        <div className="clip short" title={name}>
          {name}
        </div>
        {answers && <div className="note">(this one)</div>}
      </>
    ),
  },
  { title: 'Place', kind: 'wide', cell: ({ place }) => place },
  {
    title: 'Seen',
    cell: ({ unseen_seconds: seconds }) => (
      <Dot color={seconds > silentAfter ? 'red' : 'green'}>{spanOf(seconds)} ago</Dot>
    ),
  },
  { title: 'May serve for', cell: ({ serves_seconds }) => spanOf(serves_seconds) },
  { title: 'Revocations to read', cell: ({ unread_revocations: unread }) => unread ?? 'all' },
]

function Replicas({ replicas }: { readonly replicas: readonly ReplicaState[] }) {
  return (
    <Section title="Processes that a revocation waits for">
      <DataTable
        label="Processes"
        columns={columns}
        rows={replicas}
        keyOf={({ name, place }) => `${name} ${place}`}
      />
    </Section>
  )
}

/** `4 s`, `12 min`, `3 h`, `5 days`. */
function spanOf(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800
    ? `${Math.round(seconds / 3_600)} h`
    : `${Math.round(seconds / 86_400)} days`
}
