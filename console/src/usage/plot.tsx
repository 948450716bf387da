import 'uplot/dist/uPlot.min.css'
import { useComputedColorScheme } from '@mantine/core'
import { useEffect, useRef } from 'react'
import UPlot from 'uplot'

export interface Series {
  readonly label: string
  readonly color: string
  /** A number for each time. */
  readonly values: readonly number[]
}

interface PlotProps {
  /** For those who do not see it; a table beside it has the numbers. */
  readonly label: string
  /** Beginnings of the spans, in seconds since the epoch. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
  /** A line across the bars; left out if it is far above them. */
  readonly ceiling?: number | undefined
  /** For the times. */
  readonly format: Intl.DateTimeFormat
}

const height = 260
/** Of one time, with room around it. */
const labelWidth = 90
/** How many times the highest bar a line may be, so that the bars are still seen. */
const farAbove = 5
const compact = new Intl.NumberFormat(undefined, { notation: 'compact' })

/** Bars over time, the series upon each other. */
export function Plot({ label, times, series, ceiling = 0, format }: PlotProps) {
  const scheme = useComputedColorScheme()
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = place.current
    if (element === null) return undefined
    const [ink, grid] = scheme === 'dark' ? ['#b8bcc2', '#373a40'] : ['#495057', '#e9ecef']
    const axis = {
      stroke: ink,
      grid: { stroke: grid, width: 1 },
      ticks: { stroke: grid, width: 1 },
    }
    const stacked = stack(series)
    const most = Math.max(0, ...stacked.flatMap(({ values }) => values))
    const top = ceiling <= most * farAbove ? ceiling : 0
    const line = {
      stroke: scheme === 'dark' ? '#ff8787' : '#c92a2a',
      width: 2,
      dash: [6, 4],
      points: { show: false },
    }
    const half = ((times[1] ?? 0) - (times[0] ?? 0)) / 2
    const plot = new UPlot(
      {
        width: element.clientWidth,
        height,
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { range: (_plot, first, last) => [first - half, last + half] },
          y: { range: () => [0, Math.max(most, top) * 1.05 || 1] },
        },
        axes: [
          {
            ...axis,
            splits: ({ width }) => thin(times, width / labelWidth),
            values: (_plot, ticks) => ticks.map((at) => format.format(at * 1_000)),
          },
          { ...axis, size: 60, values: (_plot, ticks) => ticks.map(compact.format) },
        ],
        series: [
          {},
          ...stacked.map(({ color }) => ({
            width: 0,
            fill: color,
            ...(UPlot.paths.bars && { paths: UPlot.paths.bars({ size: [0.7, 60] }) }),
            points: { show: false },
          })),
          ...(top > 0 ? [line] : []),
        ],
      },
      [
        [...times],
        ...stacked.map(({ values }) => [...values]),
        ...(top > 0 ? [times.map(() => top)] : []),
      ],
      element,
    )
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }))
    resized.observe(element)
    return () => {
      resized.disconnect()
      plot.destroy()
    }
  }, [times, series, ceiling, scheme, format])
  return <div ref={place} role="img" aria-label={label} />
}

/** About as many as there is room for, the last one included. */
function thin(times: readonly number[], most: number): number[] {
  const step = Math.max(1, Math.ceil(times.length / most))
  return times.filter((_, at) => (times.length - 1 - at) % step === 0)
}

/** The highest bars first, because those drawn later cover them. */
function stack(series: readonly Series[]): readonly Series[] {
  const sums: number[] = []
  return series
    .map(({ values, ...rest }) => {
      values.forEach((value, at) => {
        sums[at] = (sums[at] ?? 0) + value
      })
      return { ...rest, values: [...sums] }
    })
    .reverse()
}
