import { Button } from '@mantine/core'
import { type MouseEvent, useEffect, useState } from 'react'

interface CopyProps {
  readonly value: string
  readonly label?: string
  /** Whether it is the main action. */
  readonly isMain?: boolean
}

const shownMs = 2_000

export function Copy({ value, label = 'Copy', isMain = false }: CopyProps) {
  const [result, setResult] = useState<'Copied' | 'Not copied: select it'>()
  useEffect(() => {
    if (result !== 'Copied') return undefined
    const timer = setTimeout(() => setResult(undefined), shownMs)
    return () => clearTimeout(timer)
  }, [result])

  async function copy({ currentTarget }: MouseEvent<HTMLElement>) {
    const isCopied = await write(value, currentTarget)
    setResult(isCopied ? 'Copied' : 'Not copied: select it')
  }

  return (
    <Button
      size={isMain ? 'sm' : 'compact-xs'}
      variant={isMain ? 'filled' : 'default'}
      flex="none"
      onClick={copy}
    >
      <span aria-live="polite">{result ?? label}</span>
    </Button>
  )
}

/** Whether the text was copied. Without https browsers have only the old way, from a field that is selected. */
async function write(value: string, button: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(value)
    return true
  } catch {
    const field = document.createElement('textarea')
    field.value = value
    field.className = 'unseen'
    // Within the dialog, which does not let the focus go.
    button.after(field)
    field.select()
    const isCopied = document.execCommand('copy')
    field.remove()
    button.focus()
    return isCopied
  }
}
