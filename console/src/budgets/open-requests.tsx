import { Button, Group, Text } from '@mantine/core'
import { useState } from 'react'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { figure } from '../parts/limits.tsx'
import { some } from '../parts/numbers.ts'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { Section } from '../parts/section.tsx'
import { Time } from '../parts/time.tsx'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { AmountCell, LimitCell, Said } from './cells.tsx'
import { Decide, type Decision } from './decide.tsx'
import { type OpenRequest, readOpenRequests } from './read-requests.ts'

const everyMs = 60_000

/** The open requests of all users, for administrators to decide. */
export function OpenRequestList({ onDecided }: { readonly onDecided: () => void }) {
  const { call, me } = useSession()
  const { value, error, reload } = useLoaded('', () => readOpenRequests(call), everyMs)
  const [decision, setDecision] = useState<Decision>()
  const currency = value?.currency
  const columns: readonly Column<OpenRequest>[] = [
    {
      title: 'Who',
      cell: ({ user, createdAt }) => (
        <>
          <bdi className="medium">{user}</bdi>
          <div className="note">
            <Time at={createdAt} isDistance />
          </div>
        </>
      ),
    },
    { title: 'Limit', kind: 'wide', cell: (request) => <LimitCell limit={request} /> },
    {
      title: 'Wanted',
      cell: (request) => (
        <>
          <AmountCell {...request} value={request.limit} currency={currency} />
          <Now {...{ request, currency }} />
        </>
      ),
    },
    { title: 'Reason', kind: 'wide', cell: ({ reason }) => <Said text={reason} /> },
    {
      title: 'Decision',
      cell: (request) => (
        <Choice
          request={request}
          isOwn={request.user === me.username}
          onDecide={(verb) => setDecision({ verb, request })}
        />
      ),
    },
  ]
  return (
    <Section title="Open requests">
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending shape="row" />}
      {value?.rows.length === 0 && (
        <Text size="sm" c="dimmed">
          There are no open requests.
        </Text>
      )}
      {value && value.rows.length > 0 && (
        <DataTable label="Requests" columns={columns} rows={value.rows} keyOf={({ id }) => id} />
      )}
      {value?.hasMore && (
        <Text size="sm" c="dimmed" mt="xs">
          These are the {some(value.rows.length, 'oldest', 'oldest')}; the others follow once these
          are decided.
        </Text>
      )}
      <Decide
        {...{ decision, currency }}
        onClose={() => setDecision(undefined)}
        onDecided={() => {
          reload()
          onDecided()
        }}
      />
    </Section>
  )
}

interface NowProps {
  readonly request: OpenRequest
  readonly currency: string | undefined
}

function Now({ request: { kind, scope, now }, currency }: NowProps) {
  if (!now || now.limit === null || now.used === null) {
    return <div className="note">{scope === 'user' ? 'nothing used now' : 'not in force now'}</div>
  }
  return (
    <>
      <div className="note">now {figure(kind, now.limit, currency)}</div>
      <div className="note">{figure(kind, now.used, currency)} used</div>
    </>
  )
}

interface ChoiceProps {
  readonly request: OpenRequest
  readonly isOwn: boolean
  readonly onDecide: (verb: Decision['verb']) => void
}

function Choice({ request: { user, name }, isOwn, onDecide }: ChoiceProps) {
  return (
    <>
      <Group gap={6}>
        {(['approve', 'deny'] as const).map((verb) => (
          <Button
            key={verb}
            variant="default"
            size="compact-xs"
            disabled={isOwn}
            aria-label={`${verbs[verb]} ${name} for ${user}`}
            onClick={() => onDecide(verb)}
          >
            {verbs[verb]}…
          </Button>
        ))}
      </Group>
      {isOwn && <div className="note">Yours: another administrator decides it.</div>}
    </>
  )
}

const verbs = { approve: 'Approve', deny: 'Deny' } as const
