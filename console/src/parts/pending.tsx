import { useEffect, useState } from 'react'

const skeletonMs = 300
const sentenceMs = 5_000

interface PendingProps {
  /** The shape of the content: figures with a plot, rows that leave no room on the screen for what follows (page). */
  readonly shape?: 'cards' | 'figures' | 'page' | 'plot' | 'row' | 'rows'
}

/**
 * A placeholder while content loads: empty at first, then its outline, then a sentence. It has its height from the
 * start, so that nothing below it moves far.
 */
export function Pending({ shape = 'rows' }: PendingProps) {
  const [phase, setPhase] = useState<'short' | 'long' | 'very long'>('short')
  useEffect(() => {
    const timers = [
      setTimeout(() => setPhase('long'), skeletonMs),
      setTimeout(() => setPhase('very long'), sentenceMs),
    ]
    return () => timers.forEach(clearTimeout)
  }, [])
  return (
    <div className="pending" data-phase={phase} role="status" aria-label="Loading">
      {phase === 'very long' && <p>The gateway has not answered yet. This page keeps waiting.</p>}
      <div className={`outline ${shape}`} aria-hidden="true">
        <i />
        <i />
        <i />
        <i />
        <i />
        <i />
      </div>
    </div>
  )
}
