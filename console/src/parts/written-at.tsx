import { Code, Text } from '@mantine/core'

interface WrittenAtProps {
  readonly kind: string
  readonly name: string
  readonly namespace?: string | undefined
  readonly file?: string | undefined
  readonly line?: number | undefined
}

/** A resource by its name, with the file and line where it is written, if they are known. */
export function WrittenAt({ kind, namespace, name, file, line }: WrittenAtProps) {
  return (
    <>
      <Code className="breaks">{`${kind} ${namespace ? `${namespace}/` : ''}${name}`}</Code>
      {file && (
        <Text span size="xs" c="dimmed" className="breaks">
          {' '}
          {file}:{line}
        </Text>
      )}
    </>
  )
}
