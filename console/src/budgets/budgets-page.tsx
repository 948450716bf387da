import { Page } from '../parts/page.tsx'
import { WhoseSwitch } from '../parts/whose-switch.tsx'
import { usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { Mine } from './mine.tsx'
import { everybody, Shared } from './shared.tsx'

/** The caller's budgets and requests; for administrators all shared budgets, open requests and increases. */
export function BudgetsPage() {
  const { me } = useSession()
  const { query } = usePlace()
  const isEverybody = me.administrator && query.get('owner') === everybody
  return (
    <Page
      title="Budgets"
      about="Limits by name on cost, or with windows of a day or longer. Most are shared; only administrators see who used them."
      actions={me.administrator && <WhoseSwitch label="Whose budgets" isEverybody={isEverybody} />}
    >
      {isEverybody ? <Shared /> : <Mine />}
    </Page>
  )
}
