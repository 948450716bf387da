import { figure } from '../parts/limits.tsx'
import { Link } from '../parts/link.tsx'
import { useSession } from '../session.tsx'
import type { Limit } from './budget.ts'
import { askAddress, mayAsk } from './more.ts'
import type { LimitRequest } from './own-requests.tsx'

interface AskLinkProps {
  readonly limit: Limit
  readonly currency?: string | undefined
  /** The caller's open requests for it. */
  readonly open?: readonly LimitRequest[]
}

/** The link to the form for an increase, if one can be requested. */
export function AskLink({ limit, currency, open = [] }: AskLinkProps) {
  const { me } = useSession()
  if (!mayAsk(limit, me)) return null
  return (
    <>
      <Link to={askAddress(limit)}>
        Ask for more<span className="unseen"> of {limit.name}</span>
      </Link>
      {open.map(({ id, kind, limit: asked }) => (
        <span key={id} className="note">
          asked for {figure(kind, asked, currency)}
        </span>
      ))}
    </>
  )
}
