import { Box, Text } from '@mantine/core'
import { useEffect, useRef } from 'react'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Icon } from '../parts/icon.tsx'
import { Link } from '../parts/link.tsx'
import { count, money, share } from '../parts/numbers.ts'
import { Panel } from '../parts/panel.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { addressHere, addressOf } from '../route.ts'
import { useSession } from '../session.tsx'
import { maxRows, readPages, type UsageRow } from '../usage/read-usage.ts'
import { useLoaded } from '../use-loaded.ts'
import type { Budget } from './budget.ts'

const everyMs = 60_000

interface Used {
  readonly user: string
  readonly answers: number
  readonly tokens: number
  readonly cost: number
}

/** The users of a budget in its window, by the ledger; for administrators. */
export function WhoUsed({ budget, id }: { readonly budget: Budget; readonly id: string }) {
  const { call } = useSession()
  const { value, error } = useLoaded(
    id,
    async () => {
      const page = await readPages(`/v1/usage?${questionOf(budget)}`, call)
      return { ...page, rows: toRows(page.data, budget) }
    },
    everyMs,
  )
  const place = useRef<HTMLDivElement>(null)
  // It is above the cards, and the clicked card may be far below.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the id stands for what was opened
  useEffect(() => {
    place.current?.focus({ preventScroll: true })
    place.current?.scrollIntoView()
  }, [id])
  const amountIn = amounts[budget.kind]
  const all = value?.rows.reduce((sum, row) => sum + amountIn(row), 0) ?? 0
  const columns: readonly Column<Used>[] = [
    {
      title: 'User',
      kind: 'wide',
      cell: ({ user }) => <Link to={addressOf('usage', { owner: user, by: 'model' })}>{user}</Link>,
    },
    { title: 'Requests', kind: 'number', cell: ({ answers }) => count(answers) },
    { title: 'Tokens', kind: 'number', cell: ({ tokens }) => count(tokens) },
    ...(value?.currency
      ? [
          {
            title: 'Cost',
            kind: 'number',
            cell: ({ cost }: Used) => money(cost, value.currency),
          } as const,
        ]
      : []),
    {
      title: 'Share',
      kind: 'number',
      cell: (row) => share(all === 0 ? 0 : amountIn(row) / all),
    },
  ]
  return (
    <div ref={place} className="opened" tabIndex={-1}>
      <Panel title={`Who used ${budget.name}`} more={[addressHere({ of: '' }), 'Close']}>
        <Problem error={error} />
        {value === undefined && error === undefined && <Pending />}
        {value?.has_more && (
          <Box className="banner" role="status" mb="sm">
            <Icon name="alert" />
            <p>
              There is more than the {maxRows} rows that were read: some users are missing, and
              shares are of those shown.
            </p>
          </Box>
        )}
        {value && value.rows.length > 0 && (
          <DataTable
            label="By user"
            columns={columns}
            rows={value.rows}
            keyOf={({ user }) => user}
          />
        )}
        {value?.rows.length === 0 && <Text size="sm">Nobody has used it in this window.</Text>}
        <Text size="xs" c="dimmed" mt="sm">
          From the usage ledger, in whole hours since the window began. Use before a reset is
          included, so the sum may exceed Used.
          {budget.scope === 'group' &&
            ' Groups are not distinguished: this is all use under the subscription.'}
        </Text>
      </Panel>
    </div>
  )
}

function questionOf({
  subscription,
  model,
  models,
  scope,
  whom,
  startsAt,
}: Budget): URLSearchParams {
  // By model only if those that it counts are to be told from others: a row per user goes further.
  const groups = models ? 'model,user' : 'user'
  const query = new URLSearchParams({ from: startsAt, group_by: groups })
  const paying = subscription ?? (scope === 'subscription' ? whom : undefined)
  if (paying) query.set('subscription', paying)
  if (model !== null) query.set('model', model)
  if (scope === 'organization' && whom) query.set('organization', whom)
  return query
}

/** The tokens of a row that the limit counts; all tokens if it counts none. */
const tokensOf: Readonly<Record<Budget['kind'], (row: UsageRow) => number>> = {
  tokens: ({ counted_tokens }) => counted_tokens,
  input: ({ input_tokens }) => input_tokens,
  output: ({ output_tokens }) => output_tokens,
  requests: ({ total_tokens }) => total_tokens,
  concurrency: ({ total_tokens }) => total_tokens,
  cost: ({ total_tokens }) => total_tokens,
}

function tokensIn({ tokens }: Used): number {
  return tokens
}

/** The amount that the limit counts, by which users are compared. */
const amounts: Readonly<Record<Budget['kind'], (used: Used) => number>> = {
  tokens: tokensIn,
  input: tokensIn,
  output: tokensIn,
  requests: ({ answers }) => answers,
  concurrency: ({ answers }) => answers,
  cost: ({ cost }) => cost,
}

/** By user, the highest usage first. */
function toRows(rows: readonly UsageRow[], { kind, models }: Budget): readonly Used[] {
  const counted = rows.filter(({ model = '' }) => models?.includes(model) ?? true)
  const byUser = Map.groupBy(counted, ({ user = '' }) => user)
  const sum = (some: readonly UsageRow[], of: (row: UsageRow) => number) =>
    some.reduce((total, row) => total + of(row), 0)
  return [...byUser]
    .map(([user, own]) => ({
      user,
      answers: sum(own, ({ answers }) => answers),
      tokens: sum(own, tokensOf[kind]),
      cost: sum(own, ({ cost = 0 }) => Number(cost)),
    }))
    .sort((a, b) => amounts[kind](b) - amounts[kind](a))
}
