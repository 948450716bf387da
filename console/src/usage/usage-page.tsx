import { Button, Card, Group, NativeSelect, SegmentedControl, Text } from '@mantine/core'
import { useMemo, useState } from 'react'
import type { ApiError } from '../api.ts'
import { sumOf } from '../overview/read-periods.ts'
import { Bars, Swatch } from '../parts/bars.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Filter } from '../parts/filter.tsx'
import { Icon } from '../parts/icon.tsx'
import { whole } from '../parts/limits.tsx'
import { Link } from '../parts/link.tsx'
import { dateLocale } from '../parts/locale.ts'
import { Nothing } from '../parts/nothing.tsx'
import { count, money, share } from '../parts/numbers.ts'
import { Page } from '../parts/page.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { Time } from '../parts/time.tsx'
import { OwnerField, WhoseSwitch } from '../parts/whose-switch.tsx'
import { addressOf, refine, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { ceilingOf, LimitsNow } from './limits-now.tsx'
import {
  type Asked,
  type FoundUsage,
  findUsage,
  groupings,
  readAsked,
  readCsv,
  spans,
  type UsageRow,
} from './read-usage.ts'
import { colorAt, toSeries } from './series.ts'

const everyMs = 60_000

export function UsagePage() {
  const { me } = useSession()
  if (me.ledger) return <Usage />
  return (
    <Page title="Usage" about="Tokens of completed requests by hour, day and month.">
      <Nothing title="Usage is not recorded here">
        This gateway has no usage journal. The limits are on the page of the{' '}
        <Link to={addressOf('models')}>models</Link>.
      </Nothing>
    </Page>
  )
}

function Usage() {
  const session = useSession()
  const { query } = usePlace()
  const { administrator } = session.me
  const asked = readAsked(query, session)
  const owner = query.get('owner') ?? ''
  const { key: _, ...rest } = Object.fromEntries(query)
  const { value, error } = useLoaded(
    JSON.stringify(asked),
    () => findUsage(asked, session),
    everyMs,
  )
  return (
    <Page
      title="Usage"
      about="Tokens of completed requests by hour, and by day and month in UTC. It may be some seconds behind."
      actions={<Csv asked={asked} />}
    >
      <Group gap="sm">
        {administrator && <WhoseSwitch label="Whose usage" isEverybody={owner !== ''} />}
        <SegmentedControl
          aria-label="Time"
          data={spans.map(({ value, label }) => ({ value, label }))}
          value={asked.span.value}
          onChange={(span) => refine({ span })}
        />
        <NativeSelect
          aria-label="By"
          value={asked.by.value}
          onChange={({ currentTarget }) => refine({ by: currentTarget.value })}
          data={groupings
            .filter(({ value }) => administrator || value !== 'user')
            .map(({ value, label }) => ({ value, label: `By ${label.toLowerCase()}` }))}
        />
        <Filter name="model" label="Model" placeholder="Model: all" width={170} />
        {administrator && owner !== '' && <OwnerField label="User" owner={owner} />}
      </Group>
      {asked.key !== '' && (
        <Text size="sm">
          Only of the key{' '}
          <Link to={addressOf(`keys/${asked.key}`)}>
            {value?.names.get(asked.key) ?? asked.key}
          </Link>
          . <Link to={addressOf('usage', rest)}>All keys</Link>
        </Text>
      )}
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending />}
      {value?.totals.length === 0 && (
        <Nothing title="Nothing was used in this time">
          Call a model with <Link to={addressOf('keys')}>a key</Link>, or choose a longer period.
        </Nothing>
      )}
      {value && value.totals.length > 0 && <Found asked={asked} found={value} />}
      {value && asked.key === '' && (
        <LimitsNow limits={value.limits} currency={value.limitCurrency} />
      )}
    </Page>
  )
}

/** Saves the current result, by time and group. */
function Csv({ asked }: { readonly asked: Asked }) {
  const session = useSession()
  const [error, setError] = useState<ApiError>()
  const [isBusy, setBusy] = useState(false)
  async function save() {
    setBusy(true)
    try {
      const text = await readCsv(asked, session)
      const link = document.createElement('a')
      link.href = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
      link.download = `usage-${asked.span.value}-by-${asked.by.value}.csv`
      link.click()
      URL.revokeObjectURL(link.href)
      setError(undefined)
    } catch (problem) {
      setError(problem as ApiError)
    }
    setBusy(false)
  }
  return (
    <>
      <Problem error={error} />
      <Button variant="default" loading={isBusy} onClick={save}>
        Save as CSV
      </Button>
    </>
  )
}

const formats = {
  hour: new Intl.DateTimeFormat(dateLocale, { timeStyle: 'short' }),
  day: new Intl.DateTimeFormat(dateLocale, { day: 'numeric', month: 'short', timeZone: 'UTC' }),
  month: new Intl.DateTimeFormat(dateLocale, { month: 'short', year: 'numeric', timeZone: 'UTC' }),
}

function Found({ asked, found }: { readonly asked: Asked; readonly found: FoundUsage }) {
  const { totals, gaps, isPartial, names, starts } = found
  const { field, label } = asked.by
  const series = useMemo(
    () => toSeries(starts, totals, found.times, field, (value) => names.get(value) ?? value),
    [found, starts, totals, names, field],
  )
  const ceiling = ceilingOf(asked, found)
  const sums = sumOf(totals)
  const hasCost = totals.some(({ cost }) => cost !== undefined)
  const named: Column<UsageRow> = {
    title: label,
    kind: 'wide',
    cell: (row, at) => (
      <>
        <Swatch color={colorAt(at)} />
        <Narrowed field={field} value={row[field] ?? ''}>
          {names.get(row[field] ?? '') ?? (row[field] || 'identity token')}
        </Narrowed>
      </>
    ),
  }
  return (
    <>
      {gaps.map(({ journal, from, to }) => (
        <div key={`${journal} ${from}`} className="banner" role="status">
          <Icon name="alert" />
          <p>
            Some usage was lost between <Time at={from} /> and {to ? <Time at={to} /> : 'now'}.
          </p>
        </div>
      ))}
      {isPartial && (
        <div className="banner" role="status">
          <Icon name="alert" />
          <p>There is more than is shown here. Choose a shorter time, or save all of it as CSV.</p>
        </div>
      )}
      <Card withBorder component="section" aria-label="Plot">
        <p className="sums">
          <span>
            <b>{count(sums.tokens)}</b> tokens
          </span>
          <span>
            <b>{count(sums.answers)}</b> {sums.answers === 1 ? 'request' : 'requests'}
          </span>
          {sums.cost !== undefined && <b>{money(sums.cost, found.currency)}</b>}
        </p>
        <Bars
          label={`Tokens by ${asked.span.unit} and ${label.toLowerCase()}; the table below has the sums`}
          format={formats[asked.span.unit]}
          ceiling={ceiling && Number(ceiling.limit)}
          times={starts}
          series={series}
        />
        {ceiling && (
          <Text size="xs" c="dimmed">
            The limit is {whole(ceiling)}, in {ceiling.subscription}; the dashed line shows it if
            the bars come near. Windows begin at a different time for each user, not with the{' '}
            {asked.span.unit}.
          </Text>
        )}
      </Card>
      <DataTable
        label="Sums"
        columns={[
          named,
          ...numbers,
          shareOf(sums.tokens),
          ...(hasCost ? [costIn(found.currency)] : []),
        ]}
        rows={totals}
        keyOf={(row) => row[field] ?? ''}
      />
    </>
  )
}

interface NarrowedProps {
  readonly field: Asked['by']['field']
  readonly value: string
  readonly children: string
}

/** Links to the usage of a user or key, by model. */
function Narrowed({ field, value, children }: NarrowedProps) {
  const { query } = usePlace()
  const name = { user: 'owner', key_id: 'key', model: undefined, subscription: undefined }[field]
  if (name === undefined || value === '') return children
  const narrowed = { ...Object.fromEntries(query), by: 'model', [name]: value }
  return <Link to={addressOf('usage', narrowed)}>{children}</Link>
}

const numbers = (
  [
    ['Requests', 'answers'],
    ['Refused by limits', 'refusals_approximate'],
    ['Input', 'input_tokens', true],
    ['Cached', 'cached_tokens', true],
    ['Output', 'output_tokens', true],
    ['Tokens', 'total_tokens'],
  ] as const
).map(
  ([title, field, isExtra = false]): Column<UsageRow> => ({
    title,
    isExtra,
    kind: 'number',
    cell: (row) => count(row[field]),
  }),
)

const shareOf = (all: number): Column<UsageRow> => ({
  title: 'Share',
  kind: 'number',
  cell: ({ total_tokens }) => share(all === 0 ? 0 : total_tokens / all),
})

const costIn = (currency: string | undefined): Column<UsageRow> => ({
  title: 'Cost',
  kind: 'number',
  cell: ({ cost }) => cost !== undefined && money(Number(cost), currency),
})
