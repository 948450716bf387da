import { Alert, Button, Group, SegmentedControl } from '@mantine/core'
import { useState } from 'react'
import { Filter } from '../parts/filter.tsx'
import { Icon } from '../parts/icon.tsx'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { EmptyPage } from '../parts/pages.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { OwnerField, WhoseSwitch } from '../parts/whose-switch.tsx'
import { refine, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { ExpiringKeys } from './expiring.tsx'
import { findKeys, readSpending, readWanted, type Wanted } from './find-keys.ts'
import { actsOf, type KeyDialog, KeyDialogs } from './key-dialogs.tsx'
import { KeyTable } from './key-table.tsx'
import { NewKey } from './new-key.tsx'
import { RevokeAll } from './revoke-all.tsx'

type Dialog = 'revoke-all' | KeyDialog | undefined

const everyMs = 30_000
const spendingEveryMs = 60_000

export function KeysPage() {
  const session = useSession()
  const { query } = usePlace()
  const wanted = readWanted(query, session)
  // Is read once: it may read a thousand keys.
  const isSearch = wanted.text !== ''
  const { value, error, reload } = useLoaded(
    JSON.stringify(wanted),
    () => findKeys(wanted, session),
    isSearch ? undefined : everyMs,
  )
  const spending = useLoaded(
    wanted.username ?? '',
    () => readSpending(wanted, session),
    isSearch ? undefined : spendingEveryMs,
  )
  const [dialog, setDialog] = useState<Dialog>()
  const close = () => setDialog(undefined)
  const isMine = wanted.username === session.me.username
  const canCreate = session.me.credential === 'identity-token'
  // In the address, so that other pages can link to the form.
  const isNew = canCreate && query.has('new')
  const openNew = () => refine({ new: '1' })
  const revokeAll = wanted.username !== undefined && (
    <Button
      variant="subtle"
      color="gray"
      c="var(--no-ink)"
      size="compact-sm"
      onClick={() => setDialog('revoke-all')}
    >
      Revoke all…
    </Button>
  )
  return (
    <Page
      title="API keys"
      about="A key calls models under one subscription. It is shown only once, when it is created."
      actions={
        canCreate && (
          <Button leftSection={<Icon name="plus" size={16} />} onClick={openNew}>
            New key
          </Button>
        )
      }
    >
      {!canCreate && (
        <Alert variant="outline" color="blue">
          You are signed in with an API key, which can list and revoke keys, but not create, edit or
          rotate them.
        </Alert>
      )}
      {isMine && <ExpiringKeys after={value} />}
      <Filters wanted={wanted} />
      <Problem error={error} />
      {value === undefined && error === undefined && <Pending />}
      {value?.isPartial && (
        <Alert variant="outline" color="yellow">
          Names were searched in the first 1,000 keys only. The beginning of a key (sk-…) finds any.
        </Alert>
      )}
      {value && value.keys.length === 0 && (
        <>
          <NoKeys wanted={wanted} isMine={isMine} onNew={openNew} canCreate={canCreate} />
          {/* The filters may hide keys that are good. */}
          <Group justify="flex-end">{revokeAll}</Group>
        </>
      )}
      {value && value.keys.length > 0 && (
        <KeyTable
          wanted={wanted}
          found={value}
          spending={spending.value}
          showsOwner={!isMine}
          acts={actsOf(session.me.credential)}
          onAct={(act, key) => setDialog({ act, key })}
          end={revokeAll}
        />
      )}
      <NewKey isOpen={isNew} onClose={() => refine({ new: '' })} onCreated={reload} />
      {wanted.username !== undefined && (
        <RevokeAll
          isOpen={dialog === 'revoke-all'}
          username={wanted.username}
          onClose={close}
          onRevoked={reload}
        />
      )}
      <KeyDialogs
        dialog={typeof dialog === 'object' ? dialog : undefined}
        onClose={close}
        onChanged={reload}
      />
    </Page>
  )
}

const statuses = [
  { value: 'active', label: 'Active' },
  { value: 'expired', label: 'Expired' },
  { value: 'revoked', label: 'Revoked' },
  { value: 'all', label: 'All' },
]

function Filters({ wanted }: { readonly wanted: Wanted }) {
  const { me } = useSession()
  const { query } = usePlace()
  const owner = query.get('owner') ?? ''
  return (
    <Group gap="sm">
      {me.administrator && <WhoseSwitch label="Whose keys" isEverybody={owner !== ''} />}
      <Filter
        name="find"
        label="Find"
        placeholder="Find by name, subscription or sk-…"
        width={320}
      />
      {me.administrator && owner !== '' && <OwnerField label="Owner" owner={owner} />}
      <SegmentedControl
        aria-label="Status"
        data={statuses}
        value={wanted.status}
        onChange={(status) => refine({ status, page: '' })}
      />
    </Group>
  )
}

interface NoKeysProps {
  readonly wanted: Wanted
  readonly isMine: boolean
  readonly canCreate: boolean
  readonly onNew: () => void
}

function NoKeys({ wanted, isMine, canCreate, onNew }: NoKeysProps) {
  if (wanted.page > 1) return <EmptyPage />
  if (wanted.text !== '' || wanted.status !== 'active' || !isMine) {
    return (
      <Nothing title="No key fits">
        <Button
          variant="default"
          onClick={() => refine({ find: '', status: 'all', owner: wanted.username ?? '*' })}
        >
          Show keys of every status
        </Button>
      </Nothing>
    )
  }
  return (
    <Nothing title="You have no active key">
      {canCreate && (
        <>
          Make one, and call a model with it in a minute.
          <Button mt="md" onClick={onNew} style={{ display: 'block', marginInline: 'auto' }}>
            Make your first key
          </Button>
        </>
      )}
    </Nothing>
  )
}
