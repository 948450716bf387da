import { Page } from '../parts/page.tsx'
import { WhoseSwitch } from '../parts/whose-switch.tsx'
import { usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { Everybody } from './everybody.tsx'
import { Mine } from './mine.tsx'

/** For administrators, the data of all users by default. */
const owners = { mine: 'me', everybody: '' }

export function OverviewPage() {
  const { me } = useSession()
  const { query } = usePlace()
  const isEverybody = me.administrator && query.get('owner') !== owners.mine
  return (
    <Page
      title="Overview"
      about={
        isEverybody
          ? 'All users, models and processes. Days, weeks and months are UTC.'
          : 'Your use, your limits and your keys. Days, weeks and months are UTC.'
      }
      actions={
        me.administrator && (
          <WhoseSwitch label="Whose overview" isEverybody={isEverybody} owners={owners} />
        )
      }
    >
      {isEverybody ? <Everybody /> : <Mine />}
    </Page>
  )
}
