import { Button, Text } from '@mantine/core'
import { useState } from 'react'
import type { IncreaseList, Propagation } from '../api.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { DialogForm } from '../parts/dialog-form.tsx'
import { Icon } from '../parts/icon.tsx'
import { count } from '../parts/numbers.ts'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { endWith, PropagationNote } from '../parts/propagation.tsx'
import { Section } from '../parts/section.tsx'
import { Time } from '../parts/time.tsx'
import { refine } from '../route.ts'
import { useSession } from '../session.tsx'
import type { Loaded } from '../use-loaded.ts'
import { AmountCell, LimitCell, Said } from './cells.tsx'

type Increase = IncreaseList['data'][number]

const maxRows = 100

interface IncreasesProps extends Omit<Loaded<IncreaseList>, 'at' | 'reload'> {
  readonly currency: string | undefined
  readonly onEnded: () => void
}

/** The increases in force, for administrators, who can end them early and grant one. */
export function Increases({ value, error, currency, onEnded }: IncreasesProps) {
  const [ending, setEnding] = useState<Increase>()
  const columns: readonly Column<Increase>[] = [
    {
      title: 'Limit',
      kind: 'wide',
      cell: (increase) => (
        <LimitCell limit={increase} user={increase.user} keyId={increase.keyId} />
      ),
    },
    {
      title: 'Raised to',
      cell: ({ kind, limit, until }) => <AmountCell {...{ kind, until, currency }} value={limit} />,
    },
    {
      title: 'Reason',
      kind: 'wide',
      cell: ({ reason, createdBy, createdAt }) => (
        <>
          <Said text={reason} />
          <div className="note">
            by <bdi>{createdBy}</bdi> <Time at={createdAt} isDistance />
          </div>
        </>
      ),
    },
    {
      title: 'End early',
      cell: (increase) => (
        <Button
          variant="default"
          size="compact-xs"
          aria-label={`End ${increase.name}`}
          onClick={() => setEnding(increase)}
        >
          End…
        </Button>
      ),
    },
  ]
  return (
    <Section
      title="Increases in force"
      action={
        <Button
          variant="default"
          size="compact-sm"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => refine({ raise: 'new' })}
        >
          Grant more
        </Button>
      }
    >
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending shape="row" />}
      {value?.data.length === 0 && (
        <Text size="sm" c="dimmed">
          No limit is increased.
        </Text>
      )}
      {value && value.data.length > 0 && (
        <DataTable
          label="Increases"
          columns={columns}
          rows={value.data.slice(0, maxRows)}
          keyOf={({ id }) => id}
        />
      )}
      {value && value.data.length > maxRows && (
        <Text size="sm" c="dimmed" mt="xs">
          These are the {count(maxRows)} highest of {count(value.data.length)}.
        </Text>
      )}
      <Dialog
        opened={ending !== undefined}
        onClose={() => setEnding(undefined)}
        title="End an increase"
      >
        {ending && (
          <Question increase={ending} onClose={() => setEnding(undefined)} onEnded={onEnded} />
        )}
      </Dialog>
    </Section>
  )
}

interface QuestionProps {
  readonly increase: Increase
  readonly onClose: () => void
  readonly onEnded: () => void
}

function Question({ increase: { id, name }, onClose, onEnded }: QuestionProps) {
  const { call } = useSession()
  const [propagation, setPropagation] = useState<Propagation>()

  async function end() {
    const path = `/v1/admin/increases/${encodeURIComponent(id)}`
    const answer = await call<{ readonly propagation: Propagation }>('DELETE', path)
    onEnded()
    endWith(answer.propagation, { done: 'Ended', name }, { onClose, onPending: setPropagation })
  }

  if (propagation) return <PropagationNote done="Ended" {...{ propagation, onClose }} />
  return (
    <DialogForm label="End it" cancel="Keep it" color="red.9" onSubmit={end} onCancel={onClose}>
      <Text className="breaks">
        <b>{name}</b> returns to the value in its resource. Use stays counted, so nothing may be
        left of it.
      </Text>
    </DialogForm>
  )
}
