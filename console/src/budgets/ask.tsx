import { Text } from '@mantine/core'
import type { LimitList, LimitRequestList } from '../api.ts'
import { Dialog } from '../parts/dialog.tsx'
import { DialogForm, textIn } from '../parts/dialog-form.tsx'
import { whole } from '../parts/limits.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { toast } from '../parts/toast.tsx'
import { refine, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { idOf, type Limit } from './budget.ts'
import { LimitCell } from './cells.tsx'
import { mayAsk, moreIn, namedOf, usualEnd } from './more.ts'
import { MoreFields, ReasonField } from './more-fields.tsx'

type LimitRequest = LimitRequestList['data'][number]

interface AskProps {
  /** The caller's own limits. */
  readonly limits: LimitList
  readonly onAsked: () => void
}

/** Requests an increase of the limit in the address. */
export function Ask({ limits: { data, currency }, onAsked }: AskProps) {
  const { me } = useSession()
  const wanted = usePlace().query.get('ask')
  const limit = data.find((each) => idOf(each) === wanted && mayAsk(each, me))
  const onClose = () => refine({ ask: '' })
  return (
    <Dialog opened={wanted !== null} onClose={onClose} title="Ask for more">
      {limit && <Form {...{ limit, currency, onClose, onAsked }} />}
      {wanted !== null && !limit && (
        <Nothing title="You have no such limit">
          You can request more only of a named limit that applies to you.
        </Nothing>
      )}
    </Dialog>
  )
}

interface FormProps extends Pick<AskProps, 'onAsked'> {
  readonly limit: Limit
  readonly currency: string | undefined
  readonly onClose: () => void
}

function Form({ limit, currency, onClose, onAsked }: FormProps) {
  const { call } = useSession()
  const { name, kind, resetsAt, increasedUntil } = limit

  async function ask(form: FormData) {
    const body = { ...namedOf(limit), ...moreIn(form, kind), reason: textIn(form, 'reason') }
    // Also after a lost response: the list shows whether it has taken effect.
    await call<LimitRequest>('POST', '/v1/limit-requests', body).finally(onAsked)
    toast(`Asked for more of ${name}`)
    onClose()
  }

  const now =
    limit.limit === null
      ? 'Only administrators see its current value.'
      : `Now ${whole(limit, currency)}${increasedUntil === undefined ? '' : ', increased temporarily'}.`
  return (
    <DialogForm
      label="Ask"
      note="An administrator approves or denies it."
      isRepeatable={false}
      onSubmit={ask}
      onCancel={onClose}
    >
      <Text size="sm" className="breaks" component="div">
        <LimitCell limit={limit} />
      </Text>
      <MoreFields about={now} until={usualEnd(resetsAt)} />
      <ReasonField about="Shown to the administrators who decide." />
    </DialogForm>
  )
}
