import { Alert } from '@mantine/core'
import type { Refusal, RefusalList } from '../api.ts'
import { Advice } from '../parts/advice.tsx'
import { reasonIn, wordsOf } from '../parts/codes.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Filter } from '../parts/filter.tsx'
import { Link } from '../parts/link.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { Time } from '../parts/time.tsx'
import { within } from '../parts/within.ts'
import { addressOf, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'

const everyMs = 10_000
const maxShown = 200

/** The refusals that all processes remember. */
export function RefusalsPage() {
  const { call } = useSession()
  const { query } = usePlace()
  const { value, error } = useLoaded(
    '',
    () => call<RefusalList>('GET', `/v1/admin/refusals?limit=${maxShown}`),
    everyMs,
  )
  const sought = (query.get('find') ?? '').toLowerCase()
  const found = value?.data.filter(({ user, model, code, path, message }) =>
    [user, model, code, wordsOf(code, true).title, path, message].some((each) =>
      each?.toLowerCase().includes(sought),
    ),
  )
  return (
    <Page
      title="Refusals"
      about={`The newest ${maxShown} model requests refused ${within(value?.since)}, updated every ${everyMs / 1_000} seconds.`}
    >
      <Filter name="find" label="Find" placeholder="Find user, model or code" />
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending />}
      {value && !value.complete && (
        <Alert color="yellow" variant="outline" role="status">
          {value.silent
            ? `Refusals are missing, because these processes did not answer: ${value.silent.join(', ')}.`
            : 'Refusals by other processes are missing, because the database did not answer.'}
        </Alert>
      )}
      {found?.length === 0 && (
        <Nothing
          title={sought ? 'No refusal matches' : `Nothing was refused ${within(value?.since)}`}
        />
      )}
      {found && found.length > 0 && (
        <DataTable
          label="Refusals"
          columns={columns}
          rows={found}
          keyOf={({ requestId, at }) => `${requestId} ${at}`}
        />
      )}
    </Page>
  )
}

const columns: readonly Column<Refusal>[] = [
  { title: 'When', cell: ({ at }) => <Time at={at} isDistance /> },
  { title: 'User', cell: ({ user }) => user ?? 'nobody' },
  {
    title: 'Model',
    kind: 'wide',
    cell: ({ model, method, path }) => (
      <>
        <div>{model}</div>
        <div className="note">
          {method} {path}
        </div>
      </>
    ),
  },
  {
    title: 'Refused with',
    kind: 'tall',
    cell: ({ status, code, message, reason }) => {
      const { title, next } = wordsOf(code, true)
      return (
        <>
          <div>
            <b>{title}</b>{' '}
            <code className="code">
              {status} {code}
            </code>
          </div>
          <div>{message}</div>
          {reason && <div className="note">{reasonIn(reason)}</div>}
          <div className="note">
            <Advice text={next} />
          </div>
        </>
      )
    },
  },
  {
    title: 'Explanation',
    kind: 'acts',
    cell: ({ requestId }) => <Link to={addressOf('explain', { request: requestId })}>Why?</Link>,
  },
]
