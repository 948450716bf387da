/** A refusal in the API's own sentence, with the id under which the service has logged it. */

import { Alert, Code, Text } from '@mantine/core'
import { ApiError } from '../api.ts'

/** For a response of another version, on which the page's code throws. */
const misread =
  'The response does not fit this page, which may be older than the gateway. Reload the page.'

export function Problem({ error }: { readonly error: ApiError | undefined }) {
  if (error === undefined) return null
  return (
    <Alert
      color="red"
      variant="outline"
      role="alert"
      title={error instanceof ApiError ? error.message : misread}
    >
      <Text size="sm">
        {error.status > 0 && `${error.status} ${error.code}`}
        {error.requestId && (
          <>
            , request <Code>{error.requestId}</Code>
          </>
        )}
      </Text>
    </Alert>
  )
}
