import { TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { refine, usePlace } from '../route.ts'
import { Icon } from './icon.tsx'

interface FilterProps {
  /** Its name in the query of the address. */
  readonly name: string
  readonly label: string
  readonly placeholder?: string
  /** In pixels; full width on a phone. */
  readonly width?: number
}

/** A field that filters a table while the user types; its value is in the address. */
export function Filter({ name, label, placeholder = label, width = 250 }: FilterProps) {
  const { query } = usePlace()
  const narrow = useDebouncedCallback((text: string) => refine({ [name]: text, page: '' }), 300)
  return (
    <TextInput
      aria-label={label}
      placeholder={placeholder}
      leftSection={<Icon name="search" size={16} />}
      defaultValue={query.get(name) ?? ''}
      onChange={({ currentTarget }) => narrow(currentTarget.value.trim())}
      w={{ base: '100%', xs: width }}
    />
  )
}
