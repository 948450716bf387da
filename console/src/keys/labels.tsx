import { Textarea } from '@mantine/core'
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
      defaultValue={Object.entries(labels)
        .map(([name, value]) => `${name}=${value}`)
        .join('\n')}
      autoComplete="off"
      spellCheck={false}
    />
  )
}

/** The labels in a form. The API validates them. */
export function labelsIn(form: FormData): Labels {
  return Object.fromEntries(
    linesIn(form, 'labels').map((line) => {
      const [name = '', ...value] = line.split('=')
      return [name.trim(), value.join('=').trim()]
    }),
  )
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
