import type { Denial } from './decide.ts'

/**
 * Why a request was refused, for the log: more detailed than the code, and for some codes more than
 * the caller may know. `model` is the key of the model that the request names, undefined if there
 * is none.
 */
export function refusalReason(denial: Denial, model: string | undefined): string | undefined {
  const { code, detail, selection } = denial
  switch (detail?.about) {
    case 'credential':
      return detail.reason ?? 'unknown credential'
    case 'identity_token':
      return 'identity token instead of an API key'
    case 'key_models':
      return "the key's models leave it out"
    case 'address':
      return 'the address is outside of allowedAddresses'
    case 'body':
      return detail.problem ?? 'the body names no model'
    default:
  }
  if (code === 'credential_invalid') return 'no credential'
  if (code !== 'model_not_allowed') return selection
  return model === undefined ? 'no such model' : 'no AccessPolicy opens the model to the caller'
}
