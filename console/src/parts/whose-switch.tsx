import { SegmentedControl } from '@mantine/core'
import { refine } from '../route.ts'
import { FilterField } from './filter.tsx'

interface WhoseSwitchProps {
  /** The label, for screen readers. */
  readonly label: string
  readonly isEverybody: boolean
  /** The value of `owner` in the address for each. */
  readonly owners?: { readonly mine: string; readonly everybody: string }
}

const usual = { mine: '', everybody: '*' }

/** For administrators: selects their own data, or all users'; the choice is in the address. */
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

/** For administrators, next to the switch: selects one user. `owner` is the user in the address. */
export function OwnerField({ label, owner }: { readonly label: string; readonly owner: string }) {
  return (
    <FilterField
      label={label}
      placeholder={`${label}: all`}
      value={owner === usual.everybody ? '' : owner}
      onNarrow={(name) => refine({ owner: name || usual.everybody, page: '' })}
      flex="1 1 120px"
      maw={{ base: '100%', xs: 180 }}
    />
  )
}
