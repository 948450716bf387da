import { Textarea } from '@mantine/core'
import { ApiError } from '../api.ts'
import { linesIn } from '../parts/dialog-form.tsx'
import { useFieldError } from '../parts/field-error.tsx'

type Labels = Readonly<Record<string, string>>

/** Labels of a key in a form, one per line. */
export function LabelsField({ labels = {} }: { readonly labels?: Labels | undefined }) {
  return (
    <Textarea
      name="labels"
      label="Labels"
      error={useFieldError('labels')}
      description="One per line, such as team=search."
      autosize
      defaultValue={Object.entries(labels).map(toLine).join('\n')}
      autoComplete="off"
      spellCheck={false}
    />
  )
}

interface Labelled {
  readonly labels?: Labels | undefined
}

/**
 * The labels in a form; those of the key as they are, with their blanks. The API validates them. Throws an ApiError if
 * two have the same name.
 */
export function labelsIn(form: FormData, { labels = {} }: Labelled = {}): Labels {
  const before = new Map(Object.entries(labels).map((label) => [toLine(label).trim(), label]))
  const written = linesIn(form, 'labels').map((line) => {
    const [name = '', ...value] = line.split('=')
    return before.get(line) ?? ([name.trim(), value.join('=').trim()] as const)
  })
  const given = Object.fromEntries(written)
  // The API would not see the first of two.
  if (Object.keys(given).length < written.length) {
    throw new ApiError(400, 'invalid_request', 'labels must have different names.')
  }
  return given
}

export function areLabelsChanged(form: FormData, { labels = {} }: Labelled): boolean {
  const lines = Object.entries(labels).map(toLine).join('\n')
  return String(form.get('labels')).replaceAll('\r\n', '\n') !== lines
}

function toLine([name, value]: readonly [string, string]): string {
  return `${name}=${value}`
}

interface LabelListProps {
  readonly labels?: Labels | undefined
  /** Maximum number shown; all by default. */
  readonly most?: number
}

export function LabelList({ labels = {}, most = Number.POSITIVE_INFINITY }: LabelListProps) {
  const all = Object.entries(labels)
  return (
    <span className="tags">
      {all.slice(0, most).map(([name, value]) => (
        <span key={name} className="tag" title={`${name}=${value}`}>
          {name}={value}
        </span>
      ))}
      {all.length > most && (
        <span
          className="note"
          title={all
            .slice(most)
            .map((each) => each.join('='))
            .join(', ')}
        >
          +{all.length - most}
        </span>
      )}
    </span>
  )
}
