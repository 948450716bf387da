import { List, SimpleGrid, Text } from '@mantine/core'
import type { RefusalList, ResourceList, ServiceState } from '../api.ts'
import { now } from '../clock.ts'
import { Dot } from '../parts/dot.tsx'
import { Link } from '../parts/link.tsx'
import { compact, count, duration, money, some } from '../parts/numbers.ts'
import { Panel } from '../parts/panel.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { addressOf } from '../route.ts'
import { type Session, useSession } from '../session.tsx'
import { maxRows, readPages, type UsageRow } from '../usage/read-usage.ts'
import { isWaitingFor, useLoaded } from '../use-loaded.ts'
import { Health } from './health.tsx'
import { LastRefusals } from './last-refusals.tsx'
import { Change } from './periods.tsx'
import { type Amount, type Period, type Periods, readPeriods, shownDays } from './read-periods.ts'
import { Stat } from './stat.tsx'
import { Shares, TokensPlot } from './tokens-plot.tsx'

const everyMs = 60_000
const stateEveryMs = 10_000
const maxRefusals = 200
const dayMs = 86_400_000

/** The overview for administrators. */
export function Everybody() {
  const session = useSession()
  const { call } = session
  const usage = useLoaded('', () => readUsage(session), everyMs)
  const state = useLoaded('', () => call<ServiceState>('GET', '/v1/admin/state'), stateEveryMs)
  const refusals = useLoaded(
    '',
    () => call<RefusalList>('GET', `/v1/admin/refusals?limit=${maxRefusals}`),
    everyMs,
  )
  const resources = useLoaded(
    '',
    () => call<ResourceList>('GET', '/v1/admin/resources?limit=1000'),
    everyMs,
  )
  const hasState = !isWaitingFor(state)
  return (
    <>
      <Problem error={state.error ?? refusals.error ?? resources.error ?? usage.error} />
      {!hasState && <Pending shape="cards" />}
      {state.value && <Health {...state.value} />}
      {hasState && (
        <SimpleGrid cols={{ base: 2, lg: 4 }}>
          {session.me.ledger && (
            <>
              <Today {...(usage.value && { usage: usage.value })} of="Requests" />
              <Today {...(usage.value && { usage: usage.value })} of="Tokens" />
            </>
          )}
          <Refused list={refusals.value} />
          <FirstByte state={state.value} />
        </SimpleGrid>
      )}
      {session.me.ledger && isWaitingFor(usage) && <Pending shape="plot" />}
      {usage.value && (
        <TokensPlot
          {...usage.value.periods}
          more={addressOf('usage', { owner: '*', by: 'model' })}
        />
      )}
      <div className="halves">
        {usage.value && usage.value.users.length > 0 && <TopUsers {...usage.value} />}
        {resources.value && <Unwell {...resources.value} />}
        {refusals.value && (
          <LastRefusals {...refusals.value} showsUser all={addressOf('refusals')} />
        )}
      </div>
    </>
  )
}

interface UsageOfAll {
  readonly periods: Periods
  /** The highest first. */
  readonly users: readonly UsageRow[]
  readonly hasMoreUsers: boolean
}

async function readUsage(session: Session): Promise<UsageOfAll | undefined> {
  if (!session.me.ledger) return undefined
  const from = new Date(now() - (shownDays - 1) * dayMs).toISOString().slice(0, 10)
  const [periods, users] = await Promise.all([
    readPeriods(session, undefined),
    readPages(`/v1/usage?from=${from}&group_by=user`, session.call),
  ])
  const ordered = users.data.toSorted((a, b) => b.total_tokens - a.total_tokens)
  return periods && { periods, users: ordered, hasMoreUsers: users.has_more }
}

interface TodayProps {
  readonly usage?: UsageOfAll
  readonly of: 'Requests' | 'Tokens'
}

function Today({ usage, of }: TodayProps) {
  const today: Period | undefined = usage?.periods.periods[0]
  const read = ({ answers, tokens }: Amount) => (of === 'Requests' ? answers : tokens)
  const { cost } = today?.now ?? {}
  return (
    <Stat
      title={`${of} today`}
      value={today && compact(read(today.now))}
      unit={
        of === 'Tokens' && cost !== undefined ? money(cost, usage?.periods.currency) : undefined
      }
      foot={
        today && (
          <>
            <Change now={read(today.full.now)} before={read(today.full.before)} />
            <span>Yesterday {compact(read(today.whole))}</span>
          </>
        )
      }
    />
  )
}

function Refused({ list }: { readonly list: RefusalList | undefined }) {
  const limits = list?.data.filter(({ status }) => status === 429).length ?? 0
  const all = list?.data.length ?? 0
  return (
    <Stat
      title={list?.since === undefined ? 'Refusals, last hour' : 'Refusals since the start'}
      label="Refusals"
      value={list && `${count(all)}${all >= maxRefusals ? '+' : ''}`}
      foot={list && `${count(limits)} by limits, ${count(all - limits)} for other reasons`}
    />
  )
}

function FirstByte({ state }: { readonly state: ServiceState | undefined }) {
  const firstByte = state?.first_byte
  const about = firstByte
    ? `median of ${some(firstByte.responses, 'response')}; 95% below ${duration(firstByte.p95_seconds)}`
    : 'no response since the start'
  return (
    <Stat
      title="Time to the first byte"
      value={firstByte && duration(firstByte.median_seconds)}
      foot={state && about}
    />
  )
}

function TopUsers({ users, hasMoreUsers }: UsageOfAll) {
  return (
    <Panel
      title={`Top users, last ${shownDays} days`}
      label="Top users"
      more={[addressOf('usage', { owner: '*', by: 'user' }), 'All users']}
    >
      <Shares
        rows={users}
        nameOf={({ user = '' }) => user}
        toOf={({ user = '' }) => addressOf('usage', { owner: user })}
        colored={false}
      />
      {hasMoreUsers && (
        <Text size="xs" c="dimmed" mt="xs">
          Of the first {maxRows} users in alphabetical order.
        </Text>
      )}
    </Panel>
  )
}

const wellPhases = ['Ready', 'Active']
const maxUnwell = 5

/** Resources that are not in force as written; renders nothing if there are none. */
function Unwell({ data, problems, more_problems }: ResourceList) {
  const unwell = data.filter(({ phase }) => phase && !wellPhases.includes(phase))
  const number = problems.length + more_problems
  if (number + unwell.length === 0) return null
  return (
    <Panel title="Resources with problems" more={[addressOf('resources'), 'All resources']}>
      <ul className="rows">
        {unwell.slice(0, maxUnwell).map(({ kind, namespace, name, phase }) => (
          <li key={`${kind} ${namespace}/${name}`}>
            <span className="grows breaks">
              <Link to={addressOf('resources', { kind, find: `${namespace}/${name}` })}>
                {`${kind} ${namespace}/${name}`}
              </Link>
            </span>
            <Dot color={phase === 'Failed' ? 'red' : 'yellow'}>{phase}</Dot>
          </li>
        ))}
      </ul>
      {number > 0 && (
        <List size="xs" spacing={4} mt={unwell.length > 0 ? 'sm' : 0} c="dimmed">
          {problems.slice(0, 3).map((problem) => (
            <List.Item key={problem} className="breaks">
              {problem}
            </List.Item>
          ))}
          {number > 3 && <List.Item>and {number - 3} more</List.Item>}
        </List>
      )}
    </Panel>
  )
}
