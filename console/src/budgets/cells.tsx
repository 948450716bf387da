/** What tables of requests and increases show alike. */

import { figure } from '../parts/limits.tsx'
import { Time } from '../parts/time.tsx'
import { type Named, whereOf } from './budget.ts'

/** Which limit; `user`: whose, of one per user. */
export function LimitCell({ limit, user }: { readonly limit: Named; readonly user?: string }) {
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

/** How much, and how long. */
export function AmountCell({ kind, value, currency, until }: AmountCellProps) {
  return (
    <>
      <div
        className="whole"
        title={kind === 'cost' ? `${value} ${currency ?? ''}`.trim() : undefined}
      >
        {figure(kind, value, currency)}
      </div>
      <div className="note">
        ends <Time at={until} isDistance />
      </div>
    </>
  )
}

/** What a person has written. */
export function Said({ text }: { readonly text: string }) {
  return <bdi className="said">{text}</bdi>
}
