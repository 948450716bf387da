import type { ApiKey } from '../api.ts'
import { EditKey } from './edit-key.tsx'
import { RevokeKey } from './revoke-key.tsx'
import { RotateKey } from './rotate-key.tsx'

/** Actions on an active key. */
export const keyActs = { edit: 'Edit…', rotate: 'Rotate…', revoke: 'Revoke…' } as const
export type KeyAct = keyof typeof keyActs

export interface KeyDialog {
  readonly act: KeyAct
  readonly key: ApiKey
}

interface KeyDialogsProps {
  /** If undefined, no dialog is open. */
  readonly dialog: KeyDialog | undefined
  readonly onClose: () => void
  /** The key has changed. */
  readonly onChanged: () => void
}

export function KeyDialogs({ dialog, onClose, onChanged }: KeyDialogsProps) {
  const keyTo = (act: KeyAct) => (dialog?.act === act ? dialog.key : undefined)
  return (
    <>
      <EditKey record={keyTo('edit')} {...{ onClose, onChanged }} />
      <RotateKey record={keyTo('rotate')} {...{ onClose }} onRotated={onChanged} />
      <RevokeKey record={keyTo('revoke')} {...{ onClose }} onRevoked={onChanged} />
    </>
  )
}

/** What the caller may do with keys: an API key can only revoke. */
export function actsOf(credential: 'identity-token' | 'api-key'): readonly KeyAct[] {
  return credential === 'api-key' ? ['revoke'] : ['edit', 'rotate', 'revoke']
}
