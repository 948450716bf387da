import { Button, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Propagation } from '../api.ts'
import { Dialog } from '../parts/dialog.tsx'
import { DialogForm } from '../parts/dialog-form.tsx'
import { Pending } from '../parts/pending.tsx'
import { Problem } from '../parts/problem.tsx'
import { PropagationNote } from '../parts/propagation.tsx'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'

interface RevokeAllProps {
  readonly isOpen: boolean
  readonly username: string
  readonly onClose: () => void
  readonly onRevoked: () => void
}

interface Answer {
  readonly revokedCount: number
  readonly message: string
  readonly propagation?: Propagation
}

const path = '/v1/api-keys/bulk-revoke'

export function RevokeAll({ isOpen, ...rest }: RevokeAllProps) {
  return (
    <Dialog opened={isOpen} onClose={rest.onClose} title="Revoke all keys of a user">
      {isOpen && <Question {...rest} />}
    </Dialog>
  )
}

function Question({ username, onClose, onRevoked }: Omit<RevokeAllProps, 'isOpen'>) {
  const { call } = useSession()
  const count = useLoaded(username, () => call<Answer>('POST', path, { username, dryRun: true }))
  const [typed, setTyped] = useState('')
  const [done, setDone] = useState<Answer>()

  async function revoke() {
    setDone(await call<Answer>('POST', path, { username }))
    onRevoked()
  }

  if (done) {
    return (
      <Stack>
        <Text role="status" className="breaks">
          {done.message}
        </Text>
        {done.propagation ? (
          <PropagationNote done="Revoked" propagation={done.propagation} onClose={onClose} />
        ) : (
          <Button variant="default" onClick={onClose} autoFocus>
            Close
          </Button>
        )}
      </Stack>
    )
  }
  const keys = count.value?.revokedCount
  if (keys === undefined)
    return count.error ? <Problem error={count.error} /> : <Pending shape="row" />
  if (keys === 0) return <Text className="breaks">{username} has no active key.</Text>
  return (
    <DialogForm
      label={`Revoke ${keys === 1 ? 'one key' : `${keys} keys`}`}
      cancel="Keep them"
      color="red.9"
      isDisabled={typed !== username}
      onSubmit={revoke}
      onCancel={onClose}
    >
      <Text className="breaks">
        This revokes {keys === 1 ? 'one active key' : `${keys} active keys`} of <b>{username}</b>,
        including ephemeral ones. This cannot be undone.
      </Text>
      <TextInput
        label={`To confirm, type ${username}`}
        autoComplete="off"
        value={typed}
        onChange={({ currentTarget }) => setTyped(currentTarget.value)}
        data-autofocus
      />
    </DialogForm>
  )
}
