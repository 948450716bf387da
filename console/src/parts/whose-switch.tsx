import { SegmentedControl, TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { refine } from '../route.ts'

interface WhoseSwitchProps {
  /** What it is about, for those who do not see the page. */
  readonly label: string
  readonly isEverybody: boolean
  /** What `owner` in the address is for each. */
  readonly owners?: { readonly mine: string; readonly everybody: string }
}

const usual = { mine: '', everybody: '*' }

/** For administrators: the own, or that of everybody; the address holds it. */
export function WhoseSwitch({ label, isEverybody, owners = usual }: WhoseSwitchProps) {
  return (
    <SegmentedControl
      aria-label={label}
      data={[
        { value: 'mine', label: 'Mine' },
        { value: 'everybody', label: 'Everybody' },
      ]}
      value={isEverybody ? 'everybody' : 'mine'}
      onChange={(whose) => refine({ owner: owners[whose as keyof typeof owners], page: '' })}
    />
  )
}

/** For administrators, beside the switch: one of everybody. `owner` is that of the address. */
export function OwnerField({ label, owner }: { readonly label: string; readonly owner: string }) {
  const narrow = useDebouncedCallback(
    (name: string) => refine({ owner: name || usual.everybody, page: '' }),
    400,
  )
  return (
    <TextInput
      aria-label={label}
      placeholder={`${label}: all`}
      defaultValue={owner === usual.everybody ? '' : owner}
      onChange={({ currentTarget }) => narrow(currentTarget.value.trim())}
      flex="1 1 120px"
      maw={{ base: '100%', xs: 180 }}
    />
  )
}
