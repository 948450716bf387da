/** A refusal in the API's own sentence, what to do, and the id under which the service has logged it. */

import { Alert, Code, Text } from '@mantine/core'
import { ApiError } from '../api.ts'
import { wordsOf } from './codes.ts'
import { distance } from './time.tsx'

/** For a response of another version, on which the page's code throws. */
const misread =
  'The response does not fit this page, which may be older than the gateway. Reload the page.'

interface ProblemProps {
  readonly error: ApiError | undefined
  /** Whether the request, sent twice, has no more effect than sent once. */
  readonly isRepeatable?: boolean
}

export function Problem({ error, isRepeatable = true }: ProblemProps) {
  if (error === undefined) return null
  const isOfApi = error instanceof ApiError
  const advice = isOfApi ? adviceFor(error, isRepeatable) : undefined
  return (
    <Alert color="red" variant="outline" role="alert" title={isOfApi ? titleOf(error) : misread}>
      {advice && <Text size="sm">{advice}</Text>}
      {error.status > 0 && (
        <Text size="sm">
          {error.status} {error.code}
          {error.requestId && (
            <>
              , request <Code>{error.requestId}</Code>
            </>
          )}
        </Text>
      )}
    </Alert>
  )
}

/** The API's sentence; the one for too many calls names a header, which this page has read. */
function titleOf({ code, message }: ApiError): string {
  return code === 'too_many_requests' ? `${wordsOf(code).title}.` : message
}

const ofCaller = ['admin_required', 'identity_token_required']

/** What to do, if the API's sentence does not say it. */
function adviceFor(
  { status, code, message, retryAfter }: ApiError,
  isRepeatable: boolean,
): string | undefined {
  if (status === 0 && code === 'unreachable') return 'Check your network connection.'
  if (status === 0 && code === 'interrupted') {
    return isRepeatable ? 'Try again.' : 'It may have taken effect. Look before you try again.'
  }
  if (status === 404) return 'It may have been removed, or be visible only to others.'
  if (status === 429) {
    return retryAfter === undefined
      ? wordsOf(code).next
      : `Try again ${distance(retryAfter * 1_000, 0)}.`
  }
  if (status >= 500) {
    return /try again/i.test(message)
      ? 'If it persists, tell the operator.'
      : wordsOf('internal').next
  }
  return ofCaller.includes(code) ? wordsOf(code).next : undefined
}
