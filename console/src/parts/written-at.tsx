interface WrittenAtProps {
  /** Omitted if the column shows it. */
  readonly kind?: string | undefined
  readonly name: string
  readonly namespace?: string | undefined
  readonly file?: string | undefined
  readonly line?: number | undefined
}

/** A resource by its name, with its file and line if they are known. */
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
