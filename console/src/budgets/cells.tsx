/** Cells that tables of requests and increases share. */

import { figure } from '../parts/limits.tsx'
import { Link } from '../parts/link.tsx'
import { Time } from '../parts/time.tsx'
import { addressOf } from '../route.ts'
import { type Named, whereOf } from './budget.ts'

interface LimitCellProps {
  readonly limit: Named
  /** The user or key, for a limit per user or of a key. */
  readonly user?: string | undefined
  readonly keyId?: string | undefined
}

/** The limit. */
export function LimitCell({ limit, user, keyId }: LimitCellProps) {
  return (
    <>
      <b className="medium">{limit.name}</b>
      <div className="note">
        {whereOf(limit)}
        {user !== undefined && (
          <>
            {' · of '}
            <bdi>{user}</bdi>
          </>
        )}
        {keyId !== undefined && (
          <>
            {' · '}
            <Link to={addressOf(`keys/${keyId}`)}>one key</Link>
          </>
        )}
      </div>
    </>
  )
}

interface AmountCellProps {
  readonly kind: Named['kind']
  readonly value: number | string
  readonly currency: string | undefined
  readonly until: string
}

/** The amount and the end. */
export function AmountCell({ kind, value, currency, until }: AmountCellProps) {
  return (
    <>
      <div
        className="whole"
        title={kind === 'cost' ? `${value} ${currency ?? ''}`.trim() : undefined}
      >
        {figure(kind, value, currency)}
      </div>
      <div className="note loose">
        until <Time at={until} />
      </div>
    </>
  )
}

/** Text that a person has written. */
export function Said({ text }: { readonly text: string }) {
  return <bdi className="said">{text}</bdi>
}
