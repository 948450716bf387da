import { useEffect, useState } from 'react'

const skeletonMs = 300
const sentenceMs = 5_000

interface PendingProps {
  /** The shape of the content. */
  readonly shape?: 'cards' | 'rows'
}

/** A placeholder while content loads: nothing at first, then its outline, then a sentence. */
export function Pending({ shape = 'rows' }: PendingProps) {
  const [phase, setPhase] = useState<'short' | 'long' | 'very long'>('short')
  useEffect(() => {
    const timers = [
      setTimeout(() => setPhase('long'), skeletonMs),
      setTimeout(() => setPhase('very long'), sentenceMs),
    ]
    return () => timers.forEach(clearTimeout)
  }, [])
  if (phase === 'short') return null
  return (
    <div className="pending" role="status" aria-label="Loading">
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
