import { type KeyboardEvent, useEffect, useId, useLayoutEffect, useRef, useState } from 'react'
import { Icon } from './icon.tsx'

export interface MenuItem {
  readonly label: string
  readonly onSelect: () => void
  /** Whether the action is irreversible: it is red, and separate from the others. */
  readonly isDangerous?: boolean
}

interface MenuProps {
  /** The label of the button, for screen readers. */
  readonly label: string
  readonly items: readonly MenuItem[]
}

/** A button that opens a list of actions. Only an open list costs anything. */
export function Menu({ label, items }: MenuProps) {
  const [isOpen, setOpen] = useState(false)
  const button = useRef<HTMLButtonElement>(null)
  const id = useId()
  const close = () => {
    setOpen(false)
    button.current?.focus()
  }
  return (
    <>
      <button
        ref={button}
        type="button"
        className="act mantine-focus-auto"
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name="more" />
      </button>
      {isOpen && button.current && (
        <Items id={id} {...{ label, items }} button={button.current} onClose={close} />
      )}
    </>
  )
}

interface ItemsProps extends MenuProps {
  readonly id: string
  readonly button: HTMLElement
  readonly onClose: () => void
}

const room = 4

function Items({ id, label, items, button, onClose }: ItemsProps) {
  const list = useRef<HTMLDivElement>(null)
  const latest = useRef(onClose)
  latest.current = onClose

  // In the top layer, where the table's own scrolling does not clip it.
  useLayoutEffect(() => {
    const element = list.current
    if (element === null) return
    element.popover = 'manual'
    element.showPopover()
    const { top, bottom, right } = button.getBoundingClientRect()
    const { offsetHeight, offsetWidth } = element
    const isAbove = bottom + offsetHeight + room > innerHeight && top > offsetHeight
    element.style.top = `${isAbove ? top - offsetHeight - room : bottom + room}px`
    element.style.left = `${Math.max(room, right - offsetWidth)}px`
    element.querySelector('button')?.focus()
  }, [button])

  useEffect(() => {
    const leave = ({ target }: Event) => {
      const isWithin = [list.current, button].some((each) => each?.contains(target as Node))
      if (!isWithin) latest.current()
    }
    addEventListener('pointerdown', leave)
    addEventListener('scroll', leave, true)
    addEventListener('resize', leave)
    return () => {
      removeEventListener('pointerdown', leave)
      removeEventListener('scroll', leave, true)
      removeEventListener('resize', leave)
    }
  }, [button])

  function move(event: KeyboardEvent) {
    const all = [...(list.current?.querySelectorAll('button') ?? [])]
    const at = all.indexOf(document.activeElement as HTMLButtonElement)
    const next = {
      ArrowDown: (at + 1) % all.length,
      ArrowUp: (at - 1 + all.length) % all.length,
      Home: 0,
      End: all.length - 1,
    }[event.key]
    if (next !== undefined) all[next]?.focus()
    else if (event.key === 'Escape' || event.key === 'Tab') onClose()
    else return
    if (event.key !== 'Tab') event.preventDefault()
  }

  return (
    <div
      ref={list}
      id={id}
      className="menu"
      role="menu"
      aria-label={label}
      onKeyDown={move}
      tabIndex={-1}
    >
      {items.map(({ label: name, onSelect, isDangerous }) => (
        <button
          key={name}
          type="button"
          role="menuitem"
          tabIndex={-1}
          data-danger={isDangerous}
          onClick={() => {
            onClose()
            onSelect()
          }}
        >
          {name}
        </button>
      ))}
    </div>
  )
}
