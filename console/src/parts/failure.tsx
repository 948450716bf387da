import { Alert, Button } from '@mantine/core'
import { Component, type ReactNode } from 'react'

interface FailureProps {
  readonly children: ReactNode
}

/** Shows a fault of the page in place of its content; without it React removes everything. */
export class Failure extends Component<FailureProps, { readonly hasFailed: boolean }> {
  override state = { hasFailed: false }

  static getDerivedStateFromError() {
    return { hasFailed: true }
  }

  override render() {
    if (!this.state.hasFailed) return this.props.children
    return (
      <Alert m="md" color="red" variant="outline" role="alert" title="This page has failed">
        <p>The gateway may have been upgraded since the page was loaded.</p>
        <Button variant="default" size="xs" onClick={() => location.reload()}>
          Reload the page
        </Button>
      </Alert>
    )
  }
}
