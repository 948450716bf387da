import type { ApiKey } from '../api.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Dot } from '../parts/dot.tsx'
import { Link } from '../parts/link.tsx'
import { Pages } from '../parts/pages.tsx'
import { Time } from '../parts/time.tsx'
import { addressOf, refine } from '../route.ts'
import { CapList } from './caps.tsx'
import { expiresSoon } from './expiring.tsx'
import type { FoundKeys, SortField, Wanted } from './find-keys.ts'
import { type KeyAct, keyActs } from './key-dialogs.tsx'
import { LabelList } from './labels.tsx'

interface KeyTableProps {
  readonly wanted: Wanted
  readonly found: FoundKeys
  readonly showsOwner: boolean
  readonly onAct: (act: KeyAct, key: ApiKey) => void
  readonly acts: readonly KeyAct[]
}

export function KeyTable({ wanted, found, ...shown }: KeyTableProps) {
  return (
    <>
      <DataTable
        label="API keys"
        columns={columnsOf(wanted, shown)}
        rows={found.keys}
        keyOf={({ id }) => id}
      />
      <Pages page={wanted.page} hasMore={found.hasMore} />
    </>
  )
}

type Shown = Pick<KeyTableProps, 'showsOwner' | 'onAct' | 'acts'>

function columnsOf(wanted: Wanted, { showsOwner, onAct, acts }: Shown): readonly Column<ApiKey>[] {
  const owner: Column<ApiKey> = { title: 'Owner', cell: ({ username }) => username }
  return [
    {
      ...sortable(wanted, 'name', 'Name'),
      kind: 'wide',
      cell: ({ id, name, description, labels }) => (
        <>
          <Link to={addressOf(`keys/${id}`)}>{name}</Link>
          {description && <div className="note">{description}</div>}
          <LabelList labels={labels} />
        </>
      ),
    },
    {
      title: 'Key',
      cell: ({ keyPrefix, previous }) => (
        <>
          {keyPrefix && <code className="code whole">{keyPrefix}…</code>}
          {previous && (
            <div className="note">
              the old secret works until <Time at={previous.endsAt} />
            </div>
          )}
        </>
      ),
    },
    ...(showsOwner ? [owner] : []),
    {
      title: 'Subscription',
      kind: 'wide',
      cell: (record) => (
        <>
          {record.subscription}
          <CapList {...record} />
        </>
      ),
    },
    {
      title: 'Status',
      cell: ({ status, ephemeral }) => (
        <>
          <Status status={status} />
          {ephemeral && <div className="note">ephemeral</div>}
        </>
      ),
    },
    {
      ...sortable(wanted, 'created_at', 'Created'),
      cell: ({ createdAt }) => <Time at={createdAt} isDistance />,
    },
    {
      ...sortable(wanted, 'expires_at', 'Expires'),
      cell: (record) => (
        <>
          {record.expiresAt ? <Time at={record.expiresAt} isDistance /> : 'never'}
          {expiresSoon(record) && (
            <div>
              <Dot color="yellow">soon</Dot>
            </div>
          )}
        </>
      ),
    },
    {
      ...sortable(wanted, 'last_used_at', 'Last used'),
      cell: ({ lastUsedAt }) => (lastUsedAt ? <Time at={lastUsedAt} isDistance /> : 'not yet'),
    },
    {
      title: 'Actions',
      kind: 'acts',
      cell: (record) =>
        record.status === 'active' &&
        acts.map((act) => (
          <button
            key={act}
            type="button"
            className="act mantine-focus-auto"
            aria-label={`${keyActs[act]} ${record.name}`}
            onClick={() => onAct(act, record)}
          >
            {keyActs[act]}
          </button>
        )),
    },
  ]
}

const colors = { active: 'green', expired: 'gray', revoked: 'red' } as const

export function Status({ status }: { readonly status: ApiKey['status'] }) {
  return <Dot color={colors[status]}>{status}</Dot>
}

/** The head of a column by which the API sorts. */
function sortable({ sortBy, order }: Wanted, field: SortField, title: string) {
  const isSorted = sortBy === field
  const isUp = isSorted && order === 'asc'
  // Names are read from a to z, dates from the latest.
  const first = field === 'name' ? 'asc' : 'desc'
  const next = isSorted ? (isUp ? 'desc' : 'asc') : first
  return {
    title,
    sorted: isSorted ? (isUp ? 'ascending' : 'descending') : undefined,
    head: (
      <button
        type="button"
        className="sort mantine-focus-auto"
        onClick={() => refine({ sort: field, order: next, page: '' })}
      >
        {title}
        <span aria-hidden="true">{isSorted ? (isUp ? '▲' : '▼') : ''}</span>
      </button>
    ),
  } as const
}
