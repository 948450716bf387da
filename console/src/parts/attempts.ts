import { useRef } from 'react'
import { randomText } from '../code-flow.ts'

/**
 * The Idempotency-Key of a form's request: the same for the same body, so that sending it again after a lost response
 * creates nothing twice.
 */
export function useAttempts(): (body: unknown) => { readonly 'idempotency-key': string } {
  const last = useRef({ body: '', key: '' })
  return (given) => {
    const body = JSON.stringify(given)
    if (body !== last.current.body) last.current = { body, key: randomText() }
    return { 'idempotency-key': last.current.key }
  }
}
