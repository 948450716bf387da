import { Button, Code, Group, Stack, Text, Textarea, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { ApiError } from '../api.ts'
import { Problem } from '../parts/problem.tsx'
import { useSession } from '../session.tsx'
import {
  bodyOf,
  type Description,
  exampleOf,
  type Field,
  fieldsOf,
  type Operation,
  typeOf,
} from './document.ts'

interface OperationDetailsProps {
  readonly operation: Operation
  readonly description: Description
}

/** An operation in a line, with its details when it is opened. */
export function OperationDetails({ operation, description }: OperationDetailsProps) {
  const [isOpen, setOpen] = useState(false)
  const { method, path, summary } = operation
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <span className="method" data-method={method}>
          {method}
        </span>
        <code className="breaks">{path}</code>
        <span className="dimmed">{summary}</span>
      </summary>
      {isOpen && <Whole {...{ operation, description }} />}
    </details>
  )
}

function Whole({ operation, description }: OperationDetailsProps) {
  const { parameters = [], requestBody, responses = {} } = operation
  const body = requestBody && bodyOf(requestBody)
  const [good] = Object.entries(responses)
  return (
    <Stack gap="md" className="operation">
      {operation.description && <Text size="sm">{operation.description}</Text>}
      {parameters.length > 0 && (
        <Fields
          title="Parameters"
          fields={parameters.map(({ name, required = false, description: about = '', schema }) => ({
            ...{ name, isRequired: required, about },
            type: schema ? typeOf(schema, description) : '',
          }))}
        />
      )}
      {body && <Fields title="Body" fields={fieldsOf(body, description)} />}
      {good && (
        <Fields title={`Answer ${good[0]}`} fields={fieldsOf(bodyOf(good[1]), description)} />
      )}
      <Text size="sm" c="dimmed">
        Other answers:{' '}
        {Object.entries(responses)
          .slice(1)
          .map(([status, { description: about = '' }]) => `${status} ${about}`.trim())
          .join(' · ')}
      </Text>
      <Send {...{ operation, description }} />
    </Stack>
  )
}

function Fields({ title, fields }: { readonly title: string; readonly fields: readonly Field[] }) {
  if (fields.length === 0) return null
  return (
    <div>
      <Text size="sm" fw={600} component="h3" mb={4}>
        {title}
      </Text>
      <dl className="fields">
        {fields.map(({ name, type, isRequired, about }) => (
          <div key={name}>
            <dt>
              <code>{name}</code>
              <span className="note">
                {type}
                {isRequired && ', required'}
              </span>
            </dt>
            <dd>{about}</dd>
          </div>
        ))}
      </dl>
    </div>
  )
}

interface Answer {
  readonly text?: string
  readonly error?: ApiError
}

/** Sends it with the current input. */
function Send({ operation, description }: OperationDetailsProps) {
  const { read } = useSession()
  const { method, path, parameters = [], requestBody } = operation
  const [answer, setAnswer] = useState<Answer>()
  const [isBusy, setBusy] = useState(false)
  const body = requestBody && bodyOf(requestBody)
  const example = body && JSON.stringify(exampleOf(body, description), null, 2)
  const own = parameters.filter((each) => each.in !== 'header')

  async function send(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const written = String(form.get('body') ?? '').trim()
    let sent: unknown
    try {
      sent = written === '' ? undefined : JSON.parse(written)
    } catch (error) {
      setAnswer({ text: `Not sent: ${error}` })
      return
    }
    setBusy(true)
    try {
      const { text } = await read(method, addressWith(path, own, form), sent)
      setAnswer({ text: indented(text) })
    } catch (error) {
      setAnswer({ error: error as ApiError })
    }
    setBusy(false)
  }

  return (
    <form onSubmit={send}>
      <Stack gap="sm">
        <Group gap="sm" align="flex-end">
          {own.map(({ name, required = false, in: where }) => (
            <TextInput
              key={name}
              name={`${where} ${name}`}
              label={name}
              required={required}
              autoComplete="off"
              size="xs"
            />
          ))}
        </Group>
        {example && (
          <Textarea
            name="body"
            label="Body"
            defaultValue={example}
            autosize
            maxRows={16}
            spellCheck={false}
            classNames={{ input: 'mono' }}
          />
        )}
        <Group>
          <Button
            type="submit"
            size="xs"
            variant={method === 'GET' ? 'filled' : 'default'}
            loading={isBusy}
          >
            Send
          </Button>
          {method !== 'GET' && (
            <Text size="xs" c="dimmed">
              This sends the request with your credential.
            </Text>
          )}
        </Group>
        <Problem error={answer?.error} />
        {answer?.error?.code === 'interrupted' && method !== 'GET' && (
          <Text size="sm">The request may have taken effect.</Text>
        )}
        {answer?.text !== undefined && (
          <Code block tabIndex={0} mah={360}>
            {answer.text}
          </Code>
        )}
      </Stack>
    </form>
  )
}

/** JSON with a line per field; any other text as it is. */
function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

/** The path with its parameters, and the query with the ones that are not empty. */
function addressWith(path: string, parameters: Operation['parameters'] = [], form: FormData) {
  const query = new URLSearchParams()
  let filled = path
  for (const { name, in: where } of parameters) {
    const value = String(form.get(`${where} ${name}`) ?? '').trim()
    if (where === 'path') filled = filled.replace(`{${name}}`, encodeURIComponent(value))
    else if (value !== '') query.set(name, value)
  }
  return `${filled}${query.size > 0 ? `?${query}` : ''}`
}
