/** Lists of the API, which are paginated. */

import type { ApiClient } from './api-client.ts'

interface Page {
  readonly data: readonly unknown[]
  readonly has_more: boolean
}

const pageSize = 1_000

/** All pages of a list as one, with the other fields of any page. */
export async function readPages<List extends Page>(
  ask: ApiClient,
  path: string,
  parameters: readonly [string, string][],
): Promise<List> {
  const data: List['data'][number][] = []
  for (let whole: List | undefined; ; ) {
    const query = new URLSearchParams([...parameters])
    query.set('limit', `${pageSize}`)
    query.set('offset', `${data.length}`)
    const page = (await ask('GET', `${path}?${query}`)) as List
    data.push(...page.data)
    whole = { ...whole, ...page, data }
    if (!page.has_more || page.data.length === 0) return whole
  }
}
