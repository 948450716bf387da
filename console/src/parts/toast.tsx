/** A message about a completed action, for some seconds, over any page. */

import { useSyncExternalStore } from 'react'
import { Icon } from './icon.tsx'

interface Toast {
  readonly id: number
  readonly text: string
}

const shownMs = 6_000
const changed = new EventTarget()
let shown: readonly Toast[] = []
let last = 0

function show(next: readonly Toast[]): void {
  shown = next
  changed.dispatchEvent(new Event('changed'))
}

export function toast(text: string): void {
  last += 1
  const id = last
  show([...shown, { id, text }])
  setTimeout(() => show(shown.filter((each) => each.id !== id)), shownMs)
}

/** The region of the messages; always rendered, so that screen readers notice new ones. */
export function Toasts() {
  const all = useSyncExternalStore(
    (listener) => {
      changed.addEventListener('changed', listener)
      return () => changed.removeEventListener('changed', listener)
    },
    () => shown,
  )
  return (
    <div className="toasts" role="status">
      {all.map(({ id, text }) => (
        <div key={id} className="toast">
          <Icon name="check" /> <span className="breaks">{text}</span>
        </div>
      ))}
    </div>
  )
}
