import { Group } from '@mantine/core'
import type { AccessList } from '../api.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Dot } from '../parts/dot.tsx'
import { Filter } from '../parts/filter.tsx'
import { LimitList } from '../parts/limits.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { EmptyPage, Pages, pageIn } from '../parts/pages.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { WrittenAt } from '../parts/written-at.tsx'
import { usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'

const pageSize = 50

/** Who can use a model, and through which policy: a row for each model and each user or group. */
export function AccessPage() {
  const { call } = useSession()
  const { query } = usePlace()
  const page = pageIn(query)
  const asked = new URLSearchParams({
    model: query.get('model') ?? '',
    subject: query.get('subject') ?? '',
    limit: String(pageSize),
    offset: String((page - 1) * pageSize),
  }).toString()
  const { value, error } = useLoaded(asked, () =>
    call<AccessList>('GET', `/v1/admin/access?${asked}`),
  )
  return (
    <Page
      title="Access"
      about="Who can use which model, by which policies and subscriptions. A policy opens a model, a subscription pays for it. A user has the access of their name and of all their groups together."
    >
      <Group gap="sm">
        <Filter name="model" label="Model" placeholder="Model, or namespace/name" />
        <Filter name="subject" label="User or group" placeholder="User or group, exact name" />
      </Group>
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending />}
      {value?.data.length === 0 && page > 1 && <EmptyPage />}
      {value?.data.length === 0 && page === 1 && (
        <Nothing title="Nobody, as far as policies and subscriptions say">
          A model needs an AccessPolicy and a Subscription that name it. Names are compared exactly.
        </Nothing>
      )}
      {value && value.data.length > 0 && (
        <DataTable
          label="Access"
          columns={columns}
          rows={value.data}
          keyOf={({ model, subject_kind, subject }) => `${model} ${subject_kind} ${subject}`}
        />
      )}
      {value && value.data.length > 0 && <Pages page={page} hasMore={value.has_more} />}
    </Page>
  )
}

type Subject = AccessList['data'][number]

const columns: readonly Column<Subject>[] = [
  { title: 'Model', kind: 'wide', cell: ({ model }) => model },
  {
    title: 'Who',
    kind: 'wide',
    cell: ({ subject_kind, subject }) => (
      <>
        {subject_kind} <code className="code">{subject}</code>
      </>
    ),
  },
  {
    title: 'Can use it',
    cell: (row) => (
      <>
        <Dot color={row.usable ? 'green' : 'gray'}>{row.usable ? 'yes' : 'no'}</Dot>
        {!row.usable && <div className="note">{lackOf(row)}</div>}
      </>
    ),
  },
  {
    title: 'Opened by',
    kind: 'tall',
    cell: ({ policies, more_policies }) => (
      <>
        {policies.map((policy) => (
          <div key={policy.name}>
            <WrittenAt {...policy} kind={undefined} />
          </div>
        ))}
        <More count={more_policies} />
      </>
    ),
  },
  {
    title: 'Paid by',
    kind: 'tall',
    cell: ({ subscriptions, more_subscriptions }) => (
      <>
        {subscriptions.map(({ pays, limits, limit_names = [], ...subscription }) => (
          <div key={subscription.name} className="listed">
            <WrittenAt {...subscription} kind={undefined} />
            <div className="note">
              <LimitList token_rate_limits={limits} {...subscription} />
              {limit_names.length > 0 && `; ${limit_names.join(', ')}`}
              {!pays && ' (not ready for the model)'}
            </div>
          </div>
        ))}
        <More count={more_subscriptions} />
      </>
    ),
  },
]

function lackOf({ policies, subscriptions }: Subject): string {
  if (policies.length === 0) return 'no policy opens the model'
  if (subscriptions.length === 0) return 'no subscription pays'
  if (!subscriptions.some(({ pays }) => pays)) return 'no subscription is ready'
  return 'the model is not ready'
}

function More({ count }: { readonly count: number | undefined }) {
  if (count === undefined) return null
  return <div className="note">and {count} more</div>
}
