import { Text } from '@mantine/core'
import { useState } from 'react'
import type { Propagation } from '../api.ts'
import { Dialog } from '../parts/dialog.tsx'
import { DialogForm, textIn } from '../parts/dialog-form.tsx'
import { amount, figure } from '../parts/limits.tsx'
import { endWith, PropagationNote } from '../parts/propagation.tsx'
import { Time } from '../parts/time.tsx'
import { useSession } from '../session.tsx'
import { whereOf } from './budget.ts'
import { Said } from './cells.tsx'
import { moreIn, toField } from './more.ts'
import { MoreFields, ReasonField } from './more-fields.tsx'
import type { OpenRequest } from './read-requests.ts'
import { noteDecided } from './use-open-requests.ts'

export interface Decision {
  readonly verb: 'approve' | 'deny'
  readonly request: OpenRequest
}

interface DecideProps {
  /** If undefined, the dialog is closed. */
  readonly decision: Decision | undefined
  readonly currency: string | undefined
  readonly onClose: () => void
  readonly onDecided: () => void
}

const titles = { approve: 'Approve a request', deny: 'Deny a request' } as const

export function Decide({ decision, ...rest }: DecideProps) {
  return (
    <Dialog
      opened={decision !== undefined}
      onClose={rest.onClose}
      title={decision && titles[decision.verb]}
    >
      {decision && <Form {...rest} {...decision} />}
    </Dialog>
  )
}

type FormProps = Decision & Omit<DecideProps, 'decision'>

function Form({ verb, request, currency, onClose, onDecided }: FormProps) {
  const { call } = useSession()
  const { id, user, name, kind, limit, until, reason, now } = request
  const isApproval = verb === 'approve'
  const done = isApproval ? 'Approved' : 'Denied'
  const [propagation, setPropagation] = useState<Propagation>()

  async function decide(form: FormData) {
    const why = textIn(form, 'reason')
    const body = isApproval ? grantIn(form, request) : { ...(why !== '' && { reason: why }) }
    const path = `/v1/limit-requests/${encodeURIComponent(id)}/${verb}`
    const answer = await call<{ readonly propagation?: Propagation }>('POST', path, body)
    onDecided()
    noteDecided()
    const decided = { done, name: `${name} for ${user}` }
    endWith(answer.propagation, decided, { onClose, onPending: setPropagation })
  }

  if (propagation) return <PropagationNote {...{ done, propagation, onClose }} />
  const present = now?.limit ? ` Now ${figure(kind, now.limit, currency)}.` : ''
  return (
    <DialogForm
      label={isApproval ? 'Approve' : 'Deny'}
      {...(!isApproval && { color: 'red.9' })}
      onSubmit={decide}
      onCancel={onClose}
    >
      <Text size="sm" className="breaks" component="div">
        <bdi>{user}</bdi> asks for <b>{amount(kind, limit, currency)}</b> of <b>{name}</b> until{' '}
        <Time at={until} />:
        <blockquote className="quote">
          <Said text={reason} />
        </blockquote>
        <div className="note">{whereOf(request)}</div>
      </Text>
      {isApproval ? (
        <MoreFields
          about={`At most the requested amount.${present}`}
          limit={limit}
          until={Date.parse(until)}
          latest={Date.parse(until)}
        />
      ) : (
        <ReasonField about="Shown to the user." isRequired={false} />
      )}
    </DialogForm>
  )
}

/** The fields that differ from the request; the time field has whole minutes only. */
function grantIn(form: FormData, { kind, limit, until }: OpenRequest) {
  const given = moreIn(form, kind)
  return {
    ...(String(given.limit) !== String(limit) && { limit: given.limit }),
    ...(textIn(form, 'until') !== toField(Date.parse(until)) && { until: given.until }),
  }
}
