import { Group } from '@mantine/core'
import type { ReactNode } from 'react'
import type { ApiKey } from '../api.ts'
import { isMadeHere } from '../models/try-key.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Dot } from '../parts/dot.tsx'
import { Link } from '../parts/link.tsx'
import { Menu } from '../parts/menu.tsx'
import { compact, count, money, some } from '../parts/numbers.ts'
import { Pages } from '../parts/pages.tsx'
import { Time } from '../parts/time.tsx'
import { addressOf, refine } from '../route.ts'
import { CapList } from './caps.tsx'
import { expiresSoon } from './expiring.tsx'
import {
  type FoundKeys,
  pageSize,
  type SortField,
  type Spending,
  type Wanted,
} from './find-keys.ts'
import { type KeyAct, keyActs } from './key-dialogs.tsx'
import { LabelList } from './labels.tsx'

interface KeyTableProps {
  readonly wanted: Wanted
  readonly found: FoundKeys
  /** Undefined if unknown. */
  readonly spending: Spending | undefined
  readonly showsOwner: boolean
  readonly onAct: (act: KeyAct, key: ApiKey) => void
  readonly acts: readonly KeyAct[]
  /** Actions on all of them. */
  readonly end?: ReactNode
}

/** Keys; keys that this page has created to try models are folded. */
export function KeyTable({ wanted, found, end, ...shown }: KeyTableProps) {
  const columns = columnsOf(wanted, shown)
  const own = found.keys.filter((key) => !isMadeHere(key))
  const made = found.keys.filter(isMadeHere)
  const keyOf = ({ id }: ApiKey) => id
  return (
    <>
      {own.length > 0 && <DataTable label="API keys" columns={columns} rows={own} keyOf={keyOf} />}
      {made.length > 0 && (
        <details>
          <summary className="note">
            {some(made.length, 'ephemeral key')} made by this page to try models
          </summary>
          <div className="folded">
            <DataTable label="Made by this page" columns={columns} rows={made} keyOf={keyOf} />
          </div>
        </details>
      )}
      <div className="foot">
        <span className="note">{numberOf(wanted, found)}</span>
        <Group gap="md">
          <Pages page={wanted.page} hasMore={found.hasMore} />
          {end}
        </Group>
      </div>
    </>
  )
}

/** `3 keys`, `26 to 50 of many keys`. */
function numberOf({ page }: Wanted, { keys, number }: FoundKeys): string {
  const first = (page - 1) * pageSize + 1
  const last = first + keys.length - 1
  if (number === undefined) return `${count(first)} to ${count(last)} of many keys`
  return number <= pageSize
    ? some(number, 'key')
    : `${count(first)} to ${count(last)} of ${some(number, 'key')}`
}

type Shown = Pick<KeyTableProps, 'showsOwner' | 'onAct' | 'acts' | 'spending'>

function columnsOf(wanted: Wanted, shown: Shown): readonly Column<ApiKey>[] {
  const { showsOwner, onAct, acts, spending } = shown
  const owner: Column<ApiKey> = { title: 'Owner', cell: ({ username }) => username }
  const status: Column<ApiKey> = {
    title: 'Status',
    cell: ({ status: word }) => <Status status={word} />,
  }
  const spend: Column<ApiKey> = {
    title: 'This month',
    kind: 'number',
    cell: ({ id }) => <Spend spending={spending} id={id} />,
  }
  return [
    {
      ...sortable(wanted, 'name', 'Name'),
      kind: 'wide',
      cell: ({ id, name, description, labels, keyPrefix, previous, ephemeral }) => (
        <>
          <Link to={addressOf(`keys/${id}`)}>{name}</Link>
          <div className="under">
            {ephemeral && <span className="badge">ephemeral</span>}
            {keyPrefix && <code className="code whole">{keyPrefix}…</code>}
            <LabelList labels={labels} most={3} />
          </div>
          {description && <div className="note">{description}</div>}
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
    ...(wanted.status === 'active' ? [] : [status]),
    ...(spending ? [spend] : []),
    {
      ...sortable(wanted, 'last_used_at', 'Last used'),
      cell: ({ lastUsedAt }) => (lastUsedAt ? <Time at={lastUsedAt} isDistance /> : 'not yet'),
    },
    {
      ...sortable(wanted, 'created_at', 'Created'),
      isExtra: true,
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
      title: 'Actions',
      kind: 'acts',
      cell: (record) =>
        record.status === 'active' && (
          <Menu
            label={`Actions for ${record.name}`}
            items={acts.map((act) => ({
              label: keyActs[act],
              isDangerous: act === 'revoke',
              onSelect: () => onAct(act, record),
            }))}
          />
        ),
    },
  ]
}

interface SpendProps {
  readonly spending: Spending | undefined
  readonly id: string
}

function Spend({ spending, id }: SpendProps) {
  const spent = spending?.ofKeys.get(id)
  if (spent === undefined) return '–'
  return (
    <>
      <span title={some(spent.tokens, 'token')}>{compact(spent.tokens)}</span>
      {spent.cost !== undefined && (
        <div className="note">{money(spent.cost, spending?.currency)}</div>
      )}
    </>
  )
}

const colors = { active: 'green', expired: 'gray', revoked: 'red' } as const

export function Status({ status }: { readonly status: ApiKey['status'] }) {
  return <Dot color={colors[status]}>{status}</Dot>
}

/** The head of a column by which the API can sort. */
function sortable({ sortBy, order }: Wanted, field: SortField, title: string) {
  const isSorted = sortBy === field
  const isUp = isSorted && order === 'asc'
  // Names ascend, dates descend.
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
        <span aria-hidden="true">{isSorted ? (isUp ? '↑' : '↓') : ''}</span>
      </button>
    ),
  } as const
}
