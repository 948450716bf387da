import type { ReactNode } from 'react'

interface DotProps {
  readonly color: 'green' | 'yellow' | 'red' | 'gray'
  readonly children: ReactNode
}

/** A status: a word, and a dot in its colour. */
export function Dot({ color, children }: DotProps) {
  return (
    <span className="dot" data-color={color}>
      {children}
    </span>
  )
}
