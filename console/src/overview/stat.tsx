import { Card } from '@mantine/core'
import type { ReactNode } from 'react'

interface StatProps {
  readonly title: string
  /** Its name, if the title contains more. */
  readonly label?: string
  /** Undefined while it is loading. */
  readonly value: string | undefined
  /** In small letters after the value. */
  readonly unit?: string | undefined
  /** The exact value, on hover. */
  readonly exact?: string
  readonly line?: ReactNode
  /** The value for comparison; omitted until it is known. */
  readonly foot?: ReactNode
}

/** A figure, with a comparison. */
export function Stat({ title, label = title, value = '–', unit, exact, line, foot }: StatProps) {
  return (
    <Card withBorder component="section" aria-label={label} className="stat">
      <h2>{title}</h2>
      <p className="stat-value" title={exact}>
        {value} {unit && <small>{unit}</small>}
      </p>
      {line && <p>{line}</p>}
      {foot && <p className="stat-foot">{foot}</p>}
    </Card>
  )
}
