import { Textarea } from '@mantine/core'
import { linesIn } from '../parts/dialog-form.tsx'

type Labels = Readonly<Record<string, string>>

/** Labels of a key in a form: a line each. */
export function LabelsField({ labels = {} }: { readonly labels?: Labels | undefined }) {
  return (
    <Textarea
      name="labels"
      label="Labels"
      description="One on each line, like team=search."
      autosize
      defaultValue={Object.entries(labels)
        .map(([name, value]) => `${name}=${value}`)
        .join('\n')}
      autoComplete="off"
      spellCheck={false}
    />
  )
}

/** The labels that a form holds. What is wrong with them, the API says. */
export function labelsIn(form: FormData): Labels {
  return Object.fromEntries(
    linesIn(form, 'labels').map((line) => {
      const [name = '', ...value] = line.split('=')
      return [name.trim(), value.join('=').trim()]
    }),
  )
}

export function LabelList({ labels = {} }: { readonly labels?: Labels | undefined }) {
  return (
    <div>
      {Object.entries(labels).map(([name, value]) => (
        <span key={name} className="tag">
          {name}={value}
        </span>
      ))}
    </div>
  )
}
