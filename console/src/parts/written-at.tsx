interface WrittenAtProps {
  /** Left out where the column says it. */
  readonly kind?: string | undefined
  readonly name: string
  readonly namespace?: string | undefined
  readonly file?: string | undefined
  readonly line?: number | undefined
}

/** A resource by its name, with the file and line where it is written, if they are known. */
export function WrittenAt({ kind, namespace, name, file, line }: WrittenAtProps) {
  return (
    <>
      <code className="code">
        {`${kind ? `${kind} ` : ''}${namespace ? `${namespace}/` : ''}${name}`}
      </code>
      {file && (
        <span className="note">
          {' '}
          {file}:{line}
        </span>
      )}
    </>
  )
}
