import type { MouseEvent, ReactNode } from 'react'
import { go } from '../route.ts'

/** Opens an address of the page without a reload, unless the user requests a new tab. */
export function follow(event: MouseEvent<HTMLElement>, address: string): void {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return
  event.preventDefault()
  go(address)
}

export function Link({ to, children }: { readonly to: string; readonly children: ReactNode }) {
  return (
    <a className="link mantine-focus-auto" href={to} onClick={(event) => follow(event, to)}>
      {children}
    </a>
  )
}
