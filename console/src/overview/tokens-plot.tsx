import { Text } from '@mantine/core'
import { useMemo } from 'react'
import { Bars, Swatch } from '../parts/bars.tsx'
import { Link } from '../parts/link.tsx'
import { dateLocale } from '../parts/locale.ts'
import { compact, share } from '../parts/numbers.ts'
import { Panel } from '../parts/panel.tsx'
import { maxRows, type UsageRow } from '../usage/read-usage.ts'
import { colorAt, toSeries } from '../usage/series.ts'
import { type Periods, shownDays } from './read-periods.ts'

const format = new Intl.DateTimeFormat(dateLocale, {
  day: 'numeric',
  month: 'short',
  timeZone: 'UTC',
})

/** Tokens of the last days by model, with totals and shares. */
export function TokensPlot({ more, ...periods }: Periods & { readonly more: string }) {
  const { starts, days, models, isByModel, hasMoreModels } = periods
  const series = useMemo(
    () =>
      isByModel
        ? toSeries(starts, models, days, 'model')
        : toSeries(starts, days.slice(0, 1), days, 'model', () => 'all models'),
    [starts, models, days, isByModel],
  )
  return (
    <Panel
      title={`Tokens, last ${shownDays} days`}
      label="Tokens by day"
      more={[more, 'All usage']}
    >
      {models.length === 0 ? (
        <Text size="sm" c="dimmed">
          Nothing was used in these days.
        </Text>
      ) : (
        <div className="beside">
          <Bars
            label={`Tokens of the last ${shownDays} days${isByModel ? ' by model' : ''}; the list beside it has the sums${isByModel ? '' : ' by model'}`}
            times={starts}
            format={format}
            series={series}
          />
          <Shares rows={models} nameOf={({ model = '' }) => model} colored={isByModel} />
        </div>
      )}
      {!isByModel && (
        <Text size="xs" c="dimmed" mt="xs">
          Too many models to show those of each day; the list has their sums
          {hasMoreModels && `, of the first ${maxRows} in alphabetical order`}.
        </Text>
      )}
    </Panel>
  )
}

interface SharesProps {
  /** The highest first. */
  readonly rows: readonly UsageRow[]
  readonly nameOf: (row: UsageRow) => string
  /** The link of a row. */
  readonly toOf?: (row: UsageRow) => string
  /** Whether the rows have the colours of a plot. */
  readonly colored?: boolean
}

const most = 6

/** Names with their totals, and their shares. */
export function Shares({ rows, nameOf, toOf, colored = true }: SharesProps) {
  const all = rows.reduce((sum, row) => sum + row.total_tokens, 0)
  return (
    <ul className="shares">
      {rows.slice(0, most).map((row, at) => {
        const part = all === 0 ? 0 : row.total_tokens / all
        const name = nameOf(row)
        return (
          <li key={name}>
            {colored && <Swatch color={colorAt(at)} />}
            <span className="grows clip" title={name}>
              {toOf ? <Link to={toOf(row)}>{name}</Link> : name}
            </span>
            <b>{compact(row.total_tokens)}</b>
            <span className="dimmed">{share(part)}</span>
            <svg
              className="share"
              aria-hidden="true"
              viewBox="0 0 100 4"
              preserveAspectRatio="none"
            >
              <rect width="100" height="4" />
              <rect width={100 * part} height="4" fill={colored ? colorAt(at) : colorAt(0)} />
            </svg>
          </li>
        )
      })}
      {rows.length > most && <li className="dimmed">and {rows.length - most} more</li>}
    </ul>
  )
}
