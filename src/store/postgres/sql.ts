/**
 * Tagged queries: `` sql`select … where id = ${id}` ``. An inserted value becomes a parameter of
 * the statement, never part of its text; an inserted query becomes a part of it.
 */

/** The rows of a statement, and the number of rows it read or changed. */
export type Rows<R extends readonly object[]> = R & { readonly count: number }

/** A query as part of another. */
export type Fragment = Query<readonly object[]>

/** A statement that is sent once, when it is awaited or run; until then it can be part of another. */
export interface Query<R extends readonly object[]> extends PromiseLike<Rows<R>> {
  /** Sends it. After `deadlineMs` without a response it is abandoned, and rejects with a GivenUp. */
  run(deadlineMs?: number): Promise<Rows<R>>
  catch<T>(onRejected: (error: unknown) => T | PromiseLike<T>): Promise<Rows<R> | T>
  readonly parts: readonly string[]
  readonly values: readonly unknown[]
}

// biome-ignore lint/suspicious/noExplicitAny: what a caller that names no type of its rows reads
type AnyRow = Record<string, any>

/** Creates queries for a pool, or for one connection during a transaction. */
export interface Sql {
  <R extends readonly object[] = AnyRow[]>(
    parts: TemplateStringsArray,
    ...values: readonly unknown[]
  ): Query<R>
  /** Literal text: one statement or, without any parameters, several. */
  unsafe<R extends readonly object[] = AnyRow[]>(text: string): Query<R>
  /** The name of a table or column. */
  identifier(name: string): Fragment
}

/** A statement ready to be sent; `$1` in its text is the first value. */
export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
}

type Send = (
  statement: Statement,
  deadlineMs: number | undefined,
) => Promise<Rows<readonly object[]>>

/** Queries that are sent by `send`. */
export function createSql(send: Send): Sql {
  function create<R extends readonly object[]>(
    parts: readonly string[],
    values: readonly unknown[],
  ): Query<R> {
    let sent: Promise<Rows<R>> | undefined
    const query: Query<R> = {
      parts,
      values,
      run(deadlineMs) {
        sent ??= (async () => (await send(render(query), deadlineMs)) as Rows<R>)()
        return sent
      },
      // biome-ignore lint/suspicious/noThenProperty: a query is awaited like its result
      then: (onFulfilled, onRejected) => query.run().then(onFulfilled, onRejected),
      catch: (onRejected) => query.run().catch(onRejected),
    }
    return query
  }
  return Object.assign(
    <R extends readonly object[]>(parts: TemplateStringsArray, ...values: readonly unknown[]) =>
      create<R>(parts, values),
    {
      unsafe: <R extends readonly object[]>(text: string) => create<R>([text], []),
      identifier: (name: string) => create([`"${name.replaceAll('"', '""')}"`], []),
    },
  )
}

/** The text with numbered parameters, including the parameters of its parts. */
function render(query: Fragment): Statement {
  const values: unknown[] = []
  function textOf({ parts, values: own }: Fragment): string {
    return parts.reduce((text, part, i) => {
      const value = own[i - 1]
      if (isQuery(value)) return text + textOf(value) + part
      values.push(toParameter(value))
      return `${text}$${values.length}${part}`
    })
  }
  return { text: textOf(query), values }
}

function isQuery(value: unknown): value is Fragment {
  return typeof value === 'object' && value !== null && 'parts' in value && 'run' in value
}

/** Dates in UTC, regardless of the time zone of this process; arrays and other values as the driver encodes them. */
function toParameter(value: unknown): unknown {
  if (value === undefined) throw new TypeError('a parameter of a statement is undefined')
  return value instanceof Date ? value.toISOString() : value
}

/** A column of timestamps in milliseconds since the epoch. */
export function epochMs(sql: Sql, column: string): Fragment {
  return sql`(extract(epoch from ${sql.identifier(column)}) * 1000)::float8`
}

/**
 * The given time, or the database's if that is earlier. What is deleted is lost for all processes, so the clock of one
 * process, which may be ahead, does not decide alone. `now`: milliseconds since the epoch.
 */
export function earlierNow(sql: Sql, now: number): Fragment {
  return sql`least(${new Date(now)}::timestamptz, now())`
}
