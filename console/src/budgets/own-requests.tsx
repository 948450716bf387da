import { Text } from '@mantine/core'
import type { LimitRequestList } from '../api.ts'
import { now } from '../clock.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Dot } from '../parts/dot.tsx'
import { Section } from '../parts/section.tsx'
import { Time } from '../parts/time.tsx'
import { idOf, type Limit } from './budget.ts'
import { AmountCell, LimitCell, Said } from './cells.tsx'

export type LimitRequest = LimitRequestList['data'][number]

export const requestPage = 100

interface OwnRequestsProps {
  readonly requests: LimitRequestList
  /** The caller's limits, as they are now. */
  readonly limits: readonly Limit[]
  readonly currency: string | undefined
}

/** The caller's requests, and their outcomes. */
export function OwnRequests({ requests, limits, currency }: OwnRequestsProps) {
  const { data, has_more } = requests
  if (data.length === 0) return null
  const columns: readonly Column<LimitRequest>[] = [
    { title: 'Limit', kind: 'wide', cell: (request) => <LimitCell limit={request} /> },
    {
      title: 'Asked for',
      cell: ({ kind, limit, until }) => <AmountCell {...{ kind, until, currency }} value={limit} />,
    },
    { title: 'Reason', kind: 'wide', isExtra: true, cell: ({ reason }) => <Said text={reason} /> },
    {
      title: 'State',
      kind: 'wide',
      cell: (request) => <State {...{ request, currency }} isOver={isOver(request, limits)} />,
    },
  ]
  return (
    <Section title="Your requests">
      <DataTable label="Requests" columns={columns} rows={data} keyOf={({ id }) => id} />
      {has_more && (
        <Text size="sm" c="dimmed" mt="xs">
          These are the latest {requestPage}.
        </Text>
      )}
    </Section>
  )
}

/** Other processes read an increase a moment later. */
const spreadMs = 2_000

/** Whether an approved increase is no longer in force: it has expired, or was ended early. */
function isOver(request: LimitRequest, limits: readonly Limit[]): boolean {
  const { state, decidedAt = '', grantedUntil = '' } = request
  if (state !== 'approved') return false
  const at = now()
  if (Date.parse(grantedUntil) <= at) return true
  const limit = limits.find((each) => idOf(each) === idOf(request))
  return limit?.increasedUntil === undefined && Date.parse(decidedAt) < at - spreadMs
}

interface StateProps {
  readonly request: LimitRequest
  readonly currency: string | undefined
  readonly isOver: boolean
}

function State({ request, currency, isOver }: StateProps) {
  const { state, kind, createdAt, decidedBy, decidedAt, decisionReason } = request
  const { grantedLimit, grantedUntil } = request
  if (state === 'open') {
    return (
      <>
        <Dot color="yellow">open</Dot>
        <div className="note">
          asked <Time at={createdAt} isDistance />
        </div>
      </>
    )
  }
  return (
    <>
      <Dot color={state === 'denied' ? 'red' : isOver ? 'gray' : 'green'}>
        {isOver ? 'ended' : state}
      </Dot>
      {grantedLimit !== undefined && grantedUntil !== undefined && (
        <AmountCell {...{ kind, currency }} value={grantedLimit} until={grantedUntil} />
      )}
      {decisionReason !== undefined && (
        <div>
          <Said text={decisionReason} />
        </div>
      )}
      <div className="note">
        by <bdi>{decidedBy}</bdi> {decidedAt !== undefined && <Time at={decidedAt} isDistance />}
      </div>
    </>
  )
}
