/** A refusal in the API's own sentence, with the id under which the service has logged it. */

import { Alert, Code, Text } from '@mantine/core'
import type { ApiError } from '../api.ts'

export function Problem({ error }: { readonly error: ApiError | undefined }) {
  if (error === undefined) return null
  return (
    <Alert color="red" variant="outline" role="alert" title={error.message}>
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
