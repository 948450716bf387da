import { TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { refine, usePlace } from '../route.ts'

interface FilterProps {
  /** In the query of the address. */
  readonly name: string
  readonly label: string
  readonly description?: string
  readonly placeholder?: string
}

/** A field that narrows a table while one types; the address holds it. */
export function Filter({ name, ...texts }: FilterProps) {
  const { query } = usePlace()
  const narrow = useDebouncedCallback((text: string) => refine({ [name]: text, page: '' }), 300)
  return (
    <TextInput
      {...texts}
      inputWrapperOrder={['label', 'input', 'description']}
      defaultValue={query.get(name) ?? ''}
      onChange={({ currentTarget }) => narrow(currentTarget.value.trim())}
      w={{ base: '100%', xs: 230 }}
    />
  )
}
