import type { ReactNode } from 'react'

/** Holds a table that may be wider than the screen. */
export function Scrolls({ label, children }: { label: string; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls needs the keyboard
    <section className="scrolls" aria-label={label} tabIndex={0}>
      {children}
    </section>
  )
}
