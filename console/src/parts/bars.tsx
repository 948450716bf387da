import { type PointerEvent, useEffect, useRef, useState } from 'react'
import { compact, count } from './numbers.ts'

export interface Series {
  readonly label: string
  readonly color: string
  /** A number for each time. */
  readonly values: readonly number[]
}

interface BarsProps {
  /** For screen readers; a table or list next to it has the numbers. */
  readonly label: string
  /** Starts of the spans, in milliseconds since the epoch. */
  readonly times: readonly number[]
  /** The first one is at the bottom. */
  readonly series: readonly Series[]
  /** A line across the bars; omitted if it is far above them. */
  readonly ceiling?: number | undefined
  /** For the labels of times. */
  readonly format: Intl.DateTimeFormat
  readonly height?: number
}

const margin = { top: 10, right: 2, bottom: 26, left: 46 }
/** The width of one time with its margins; pixels. */
const labelWidth = 74
const maxBar = 46
/** Maximum height of the line in multiples of the highest bar, so that the bars stay visible. */
const farAbove = 5

/** Stacked bars over time, with the numbers of the one under the pointer. */
export function Bars({ label, times, series, ceiling = 0, format, height = 240 }: BarsProps) {
  const place = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  const [at, setAt] = useState<number>()
  useEffect(() => {
    const element = place.current
    if (element === null) return undefined
    const resized = new ResizeObserver(() => setWidth(element.clientWidth))
    resized.observe(element)
    return () => resized.disconnect()
  }, [])

  const sums = times.map((_, i) => series.reduce((sum, { values }) => sum + (values[i] ?? 0), 0))
  const most = Math.max(0, ...sums)
  const line = ceiling > 0 && ceiling <= most * farAbove ? ceiling : 0
  const ticks = ticksUpTo(Math.max(most, line))
  const top = ticks.at(-1) ?? 1
  const [inner, depth] = [
    Math.max(0, width - margin.left - margin.right),
    height - margin.top - margin.bottom,
  ]
  const band = inner / Math.max(1, times.length)
  const bar = Math.min(maxBar, band * 0.68)
  const xOf = (i: number) => margin.left + band * i
  const yOf = (value: number) => margin.top + depth * (1 - value / top)
  const every = Math.max(1, Math.ceil(labelWidth / Math.max(1, band)))

  function point({ clientX, currentTarget }: PointerEvent<SVGElement>) {
    const x = clientX - currentTarget.getBoundingClientRect().left - margin.left
    const over = Math.floor(x / band)
    setAt(over >= 0 && over < times.length ? over : undefined)
  }

  return (
    <div className="bars" ref={place} style={{ height }}>
      {width > 0 && (
        <svg
          role="img"
          aria-label={label}
          width={width}
          height={height}
          onPointerDown={point}
          onPointerMove={point}
          // A finger leaves it when it is lifted.
          onPointerLeave={({ pointerType }) => pointerType !== 'touch' && setAt(undefined)}
        >
          {ticks.map((tick) => (
            <g key={tick}>
              <line x1={margin.left} x2={width} y1={yOf(tick)} y2={yOf(tick)} />
              <text x={margin.left - 8} y={yOf(tick) + 4} textAnchor="end">
                {compact(tick)}
              </text>
            </g>
          ))}
          {at !== undefined && (
            <rect className="band" x={xOf(at)} y={margin.top} width={band} height={depth} />
          )}
          {times.map((time, i) => (
            <g key={time}>
              {stackOf(series, i).map(({ color, from, to, isTop }) => (
                <path
                  key={from}
                  fill={color}
                  d={barPath(xOf(i) + (band - bar) / 2, yOf(from), bar, yOf(to), isTop)}
                />
              ))}
              {(times.length - 1 - i) % every === 0 && (
                <text
                  x={Math.min(xOf(i) + band / 2, width - labelWidth / 3)}
                  y={height - 7}
                  textAnchor="middle"
                >
                  {format.format(time)}
                </text>
              )}
            </g>
          ))}
          {line > 0 && (
            <line className="ceiling" x1={margin.left} x2={width} y1={yOf(line)} y2={yOf(line)} />
          )}
        </svg>
      )}
      {at !== undefined && (
        <div className="tip" aria-hidden="true" style={tipAt(xOf(at) + band / 2, width)}>
          <div className="tip-head">
            <span>{format.format(times[at])}</span>
            <b>{count(sums[at] ?? 0)}</b>
          </div>
          {series.map(({ label: name, color, values }) =>
            values[at] ? (
              <div key={name} className="tip-row">
                <Swatch color={color} />
                <span>{name}</span>
                <span>{count(values[at])}</span>
              </div>
            ) : null,
          )}
        </div>
      )}
    </div>
  )
}

export function Swatch({ color }: { readonly color: string }) {
  return (
    <svg className="swatch" viewBox="0 0 10 10" aria-hidden="true">
      <rect width="10" height="10" rx="3" fill={color} />
    </svg>
  )
}

/** Next to the bar, on the side with room. */
function tipAt(x: number, width: number) {
  return x < width / 2 ? { left: x + 14 } : { right: width - x + 14 }
}

/** Round numbers from 0 to one that is not below `most`. */
function ticksUpTo(most: number): readonly number[] {
  if (most === 0) return [0, 1]
  const rough = most / 4
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = Math.max(1, ([1, 2, 5, 10].find((each) => each * power >= rough) ?? 10) * power)
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, i) => i * step)
}

/** The segments drawn for a time: their range and colour. */
function stackOf(series: readonly Series[], i: number) {
  let from = 0
  const parts = series.flatMap(({ color, values }) => {
    const value = values[i] ?? 0
    if (value <= 0) return []
    const part = { color, from, to: from + value, isTop: false }
    from += value
    return [part]
  })
  return parts.map((part, at) => ({ ...part, isTop: at === parts.length - 1 }))
}

/** A rectangle, at the top of a bar with round corners. */
function barPath(x: number, bottom: number, width: number, top: number, isTop: boolean): string {
  const round = isTop ? Math.min(4, width / 2, bottom - top) : 0
  return `M${x} ${bottom}V${top + round}q0 ${-round} ${round} ${-round}h${width - 2 * round}q${round} 0 ${round} ${round}V${bottom}z`
}
