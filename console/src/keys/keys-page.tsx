import { Alert, Button, Group, SegmentedControl, Stack, TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { useState } from 'react'
import { Nothing } from '../parts/nothing.tsx'
import { Page } from '../parts/page.tsx'
import { Problem } from '../parts/problem.tsx'
import { refine, usePlace } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'
import { ExpiringKeys } from './expiring.tsx'
import { findKeys, readWanted, type Wanted } from './find-keys.ts'
import { actsOf, type KeyDialog, KeyDialogs } from './key-dialogs.tsx'
import { KeyTable } from './key-table.tsx'
import { NewKey } from './new-key.tsx'
import { RevokeAll } from './revoke-all.tsx'

type Dialog = 'new' | 'revoke-all' | KeyDialog | undefined

export function KeysPage() {
  const session = useSession()
  const { query } = usePlace()
  const wanted = readWanted(query, session)
  const { value, error, reload } = useLoaded(JSON.stringify(wanted), () =>
    findKeys(wanted, session.call),
  )
  const [dialog, setDialog] = useState<Dialog>()
  const close = () => setDialog(undefined)
  const isMine = wanted.username === session.me.username
  const canCreate = session.me.credential === 'identity-token'
  return (
    <Page
      title="API keys"
      about="A key calls models and pays with one subscription. It is shown once, when it is made."
      actions={
        <>
          {wanted.username !== undefined && (
            <Button variant="default" onClick={() => setDialog('revoke-all')}>
              Revoke all…
            </Button>
          )}
          {canCreate && <Button onClick={() => setDialog('new')}>New key</Button>}
        </>
      }
    >
      {!canCreate && (
        <Alert variant="outline" color="blue">
          You have signed in with an API key, which can list and revoke keys, but not create, edit
          or rotate them.
        </Alert>
      )}
      {isMine && <ExpiringKeys after={value} />}
      <Filters wanted={wanted} />
      <Problem error={error} />
      {value?.isPartial && (
        <Alert variant="outline" color="yellow">
          Names were searched in the first 1,000 keys only. The beginning of a key (sk-…) finds any.
        </Alert>
      )}
      {value && value.keys.length === 0 ? (
        <NoKeys
          wanted={wanted}
          isMine={isMine}
          onNew={() => setDialog('new')}
          canCreate={canCreate}
        />
      ) : (
        value && (
          <KeyTable
            {...{ wanted }}
            found={value}
            showsOwner={!isMine}
            acts={actsOf(session.me.credential)}
            onAct={(act, key) => setDialog({ act, key })}
          />
        )
      )}
      <NewKey isOpen={dialog === 'new'} onClose={close} onCreated={reload} />
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
  const find = useDebouncedCallback((find: string) => refine({ find, page: '' }), 250)
  const owns = useDebouncedCallback((owner: string) => refine({ owner, page: '' }), 400)
  const { query } = usePlace()
  return (
    <Group align="flex-end">
      <TextInput
        label="Find"
        placeholder="Name, subscription or sk-…"
        defaultValue={wanted.text}
        onChange={({ currentTarget }) => find(currentTarget.value.trim())}
        w={{ base: '100%', xs: 260 }}
      />
      {me.administrator && (
        <TextInput
          label="Owner"
          description="Empty: you. *: everybody."
          inputWrapperOrder={['label', 'input', 'description']}
          defaultValue={query.get('owner') ?? ''}
          onChange={({ currentTarget }) => owns(currentTarget.value.trim())}
          w={{ base: '100%', xs: 200 }}
        />
      )}
      <Stack gap={2}>
        <SegmentedControl
          aria-label="Status"
          data={statuses}
          value={wanted.status}
          onChange={(status) => refine({ status, page: '' })}
        />
      </Stack>
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
  if (wanted.page > 1) {
    return (
      <Nothing title="This page is empty">
        <Button variant="default" onClick={() => refine({ page: '' })}>
          Go to the first page
        </Button>
      </Nothing>
    )
  }
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
