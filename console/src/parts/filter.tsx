import { TextInput, type TextInputProps } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'
import { refine, usePlace } from '../route.ts'
import { Icon } from './icon.tsx'

interface FilterProps extends Pick<TextInputProps, 'flex' | 'leftSection' | 'maw' | 'w'> {
  readonly label: string
  readonly placeholder?: string
  /** What the address has. */
  readonly value: string
  /** Called a moment after the user has typed. */
  readonly onNarrow: (text: string) => void
}

const typingMs = 300

/** A field that filters while the user types. It shows what the address has, also if something else has changed that. */
export function FilterField({ label, placeholder = label, value, onNarrow, ...rest }: FilterProps) {
  const [text, setText] = useState(value)
  const known = useRef(value)
  const latest = useRef(onNarrow)
  latest.current = onNarrow
  if (known.current !== value) {
    known.current = value
    if (text.trim() !== value) setText(value)
  }
  useEffect(() => {
    const written = text.trim()
    if (written === known.current) return undefined
    const timer = setTimeout(() => {
      known.current = written
      latest.current(written)
    }, typingMs)
    return () => clearTimeout(timer)
  }, [text])
  return (
    <TextInput
      aria-label={label}
      placeholder={placeholder}
      value={text}
      onChange={({ currentTarget }) => setText(currentTarget.value)}
      {...rest}
    />
  )
}

interface TableFilterProps extends Pick<FilterProps, 'label' | 'placeholder'> {
  /** Its name in the query of the address. */
  readonly name: string
  /** In pixels; full width on a phone. */
  readonly width?: number
}

/** A filter of a table. */
export function Filter({ name, width = 250, ...rest }: TableFilterProps) {
  const { query } = usePlace()
  return (
    <FilterField
      value={query.get(name) ?? ''}
      onNarrow={(text) => refine({ [name]: text, page: '' })}
      leftSection={<Icon name="search" size={16} />}
      w={{ base: '100%', xs: width }}
      {...rest}
    />
  )
}
