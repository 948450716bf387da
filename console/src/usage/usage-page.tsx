import {
  Alert,
  Button,
  Card,
  Group,
  NativeSelect,
  SegmentedControl,
  Stack,
  Text,
} from '@mantine/core'
import { useMemo, useState } from 'react'
import type { ApiError } from '../api.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Filter } from '../parts/filter.tsx'
import { count } from '../parts/limits.tsx'
import { Link } from '../parts/link.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { Problem } from '../parts/problem.tsx'
import { Time } from '../parts/time.tsx'
import { addressOf, refine, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { ceilingOf, LimitsNow } from './limits-now.tsx'
import { Plot, type Series } from './plot.tsx'
import {
  type Asked,
  csvAddress,
  type FoundUsage,
  findUsage,
  groupings,
  readAsked,
  spans,
  type UsageRow,
} from './read-usage.ts'

const everyMs = 60_000

export function UsagePage() {
  const session = useSession()
  const { query } = usePlace()
  const { administrator } = session.me
  const asked = readAsked(query, session)
  const { key: _, ...rest } = Object.fromEntries(query)
  const { value, error } = useLoaded(
    JSON.stringify(asked),
    () => findUsage(asked, session),
    everyMs,
  )
  return (
    <Page
      title="Usage"
      about="Tokens of answered requests, by hours, and by days and months of UTC. Counted from the journal, so it may be some seconds behind."
      actions={<Csv asked={asked} />}
    >
      <Group align="flex-start">
        <Stack gap={4}>
          <Text size="sm" fw={500} component="span" aria-hidden="true">
            Time
          </Text>
          <SegmentedControl
            aria-label="Time"
            data={spans.map(({ value, label }) => ({ value, label }))}
            value={asked.span.value}
            onChange={(span) => refine({ span })}
          />
        </Stack>
        <NativeSelect
          label="By"
          value={asked.by.value}
          onChange={({ currentTarget }) => refine({ by: currentTarget.value })}
          data={groupings
            .filter(({ value }) => administrator || value !== 'user')
            .map(({ value, label }) => ({ value, label }))}
        />
        <Filter name="model" label="Model" placeholder="namespace/name" />
        {administrator && (
          <Filter name="owner" label="User" description="Empty: you. *: everybody." />
        )}
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
      {value?.totals.length === 0 && (
        <Nothing title="Nothing was used in this time">
          Call a model with <Link to={addressOf('keys')}>a key</Link>, or look at a longer time.
        </Nothing>
      )}
      {value && value.totals.length > 0 && <Found asked={asked} found={value} />}
      {value && asked.key === '' && <LimitsNow limits={value.limits} />}
    </Page>
  )
}

/** Saves what is shown, by time and group. */
function Csv({ asked }: { readonly asked: Asked }) {
  const { read } = useSession()
  const [error, setError] = useState<ApiError>()
  async function save() {
    try {
      const text = await read(csvAddress(asked))
      const link = document.createElement('a')
      link.href = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
      link.download = `usage-${asked.span.value}-by-${asked.by.value}.csv`
      link.click()
      URL.revokeObjectURL(link.href)
      setError(undefined)
    } catch (problem) {
      setError(problem as ApiError)
    }
  }
  return (
    <>
      <Problem error={error} />
      <Button variant="default" onClick={save}>
        Save as CSV
      </Button>
    </>
  )
}

const formats = {
  hour: new Intl.DateTimeFormat(undefined, { timeStyle: 'short' }),
  day: new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' }),
  month: new Intl.DateTimeFormat(undefined, { month: 'short', year: 'numeric', timeZone: 'UTC' }),
}

const colors = ['#4c6ef5', '#12b886', '#fab005', '#e64980', '#15aabf', '#868e96'] as const
const others = colors.length - 1

function Found({ asked, found }: { readonly asked: Asked; readonly found: FoundUsage }) {
  const { totals, gaps, isPartial, names } = found
  const { field, label } = asked.by
  const { times, series } = useMemo(() => toSeries(found, field), [found, field])
  const ceiling = ceilingOf(asked, found)
  const hasCost = totals.some(({ cost }) => cost !== undefined)
  const named: Column<UsageRow> = {
    title: label,
    kind: 'wide',
    cell: (row, at) => (
      <>
        <svg className="swatch" viewBox="0 0 1 1" aria-hidden="true">
          <circle cx=".5" cy=".5" r=".5" fill={colors[Math.min(at, others)]} />
        </svg>
        <Narrowed field={field} value={row[field] ?? ''}>
          {names.get(row[field] ?? '') ?? (row[field] || 'identity token')}
        </Narrowed>
      </>
    ),
  }
  return (
    <>
      {gaps.map(({ journal, from, to }) => (
        <Alert key={`${journal} ${from}`} color="yellow" variant="outline" role="status">
          Some usage was lost between <Time at={from} /> and {to ? <Time at={to} /> : 'now'}.
        </Alert>
      ))}
      {isPartial && (
        <Alert color="yellow" variant="outline" role="status">
          There is more than is shown; the CSV has the first thousand rows. Choose a shorter time.
        </Alert>
      )}
      <Card withBorder p="sm">
        <Plot
          label={`Tokens by ${asked.span.unit} and ${label.toLowerCase()}; the table below has the sums`}
          format={formats[asked.span.unit]}
          ceiling={ceiling?.limit}
          {...{ times, series }}
        />
        {ceiling && (
          <Text size="xs" c="dimmed">
            The limit is {count(ceiling.limit)} tokens per {ceiling.window}, in{' '}
            {ceiling.subscription}; the dashed line shows it if the bars come near. A window begins
            with its first response, not with the {asked.span.unit}.
          </Text>
        )}
      </Card>
      <DataTable
        label="Sums"
        columns={[named, ...numbers, ...(hasCost ? [cost] : [])]}
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

/** Leads from a user or key to what that one has used, by model. */
function Narrowed({ field, value, children }: NarrowedProps) {
  const { query } = usePlace()
  const name = { user: 'owner', key_id: 'key', model: undefined, subscription: undefined }[field]
  if (name === undefined || value === '') return children
  const narrowed = { ...Object.fromEntries(query), by: 'model', [name]: value }
  return <Link to={addressOf('usage', narrowed)}>{children}</Link>
}

const numbers = (
  [
    ['Answers', 'answers'],
    ['Refused, about', 'refusals_approximate'],
    ['Input', 'input_tokens'],
    ['Cached', 'cached_tokens'],
    ['Output', 'output_tokens'],
    ['Tokens', 'total_tokens'],
  ] as const
).map(
  ([title, field]): Column<UsageRow> => ({
    title,
    kind: 'number',
    cell: (row) => count(row[field]),
  }),
)

const cost: Column<UsageRow> = { title: 'Cost', kind: 'number', cell: (row) => row.cost }

/** The groups with the most tokens, and all others together, at each time of the span. */
function toSeries({ starts, totals, times: rows }: FoundUsage, field: Asked['by']['field']) {
  const times = starts.map((start) => start / 1_000)
  const placeOf = new Map(totals.map((row, at) => [row[field], Math.min(at, others)]))
  const series: Series[] = colors.slice(0, totals.length).map((color, at) => ({
    color,
    label: at === others ? 'others' : (totals[at]?.[field] ?? ''),
    values: times.map(() => 0),
  }))
  const timeAt = new Map(times.map((time, at) => [time, at]))
  for (const row of rows) {
    const at = timeAt.get(Date.parse(row.start ?? '') / 1_000)
    const values = series[placeOf.get(row[field]) ?? others]?.values as number[] | undefined
    if (values && at !== undefined) values[at] = (values[at] ?? 0) + row.total_tokens
  }
  return { times, series }
}
