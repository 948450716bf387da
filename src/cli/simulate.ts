/** `tollgate simulate`: which past requests the resources in a folder would have refused. */

import { bodyLimit } from '../admin/http/body.ts'
import type { SimulationResponse } from '../admin/usage/simulate.ts'
import { parseDuration, toTimestamp } from '../formats/time.ts'
import { listFiles } from '../models/sources/list-files.ts'
import { formatProblem } from '../models/sources/resource-folder.ts'
import { parseYaml } from '../models/sources/yaml-documents.ts'
import { connectApi } from './api-client.ts'
import { type FlagsOf, type Run, WrongCall } from './command.ts'
import type { simulateFlags } from './commands/operate.ts'
import { loadFolder, noResourcesError, readInputFile } from './input-file.ts'
import { formatFigure } from './limit-cells.ts'
import { formatCount, formatJson, printable, renderBar, renderTable } from './output.ts'
import type { CommandIo } from './terminal.ts'
import { toSpan } from './time-flag.ts'

/** Room for the other fields of the request's body, in bytes. */
const mostOtherBytes = 1_024

/** Runs the command; returns the exit status: 1 if anything would be refused. */
export const simulate: Run<typeof simulateFlags> = async (
  { operands: [folder = ''], flags },
  io,
) => {
  const span = spanOf(flags)
  const resources = await readFolder(folder, io)
  if (resources === undefined) return 1
  const ask = connectApi(io, flags)
  const response = (await ask('POST', '/v1/simulate', { resources, ...span })) as SimulationResponse
  io.out(flags.json ? formatJson(response) : show(response))
  return response.refused > 0 ? 1 : 0
}

function spanOf({ since, from, to }: FlagsOf<typeof simulateFlags>) {
  if (since === undefined) return toSpan({ from, to })
  if ((from ?? to) !== undefined)
    throw new WrongCall('Give either --since, or --from and --to, not both.')
  const sinceMs = parseDuration(since)
  if (sinceMs === undefined) throw new WrongCall('--since must be a duration such as 7d or 36h.')
  return { from: toTimestamp(Date.now() - sinceMs) }
}

/** The text of all its files; undefined if they are not valid, with the reasons on standard error. */
async function readFolder(folder: string, { err, input }: CommandIo): Promise<string | undefined> {
  const loaded = await loadFolder(folder)
  const errors = loaded.problems.filter(({ severity }) => severity === 'error')
  for (const problem of errors) err(printable(formatProblem(problem)))
  if (errors.length > 0) return undefined
  if (loaded.resources.length === 0) throw noResourcesError(folder)
  const paths = [...(await listFiles(folder)).keys()].sort()
  const texts = await Promise.all(paths.map((path) => readInputFile(path, input)))
  const joined = texts.map(withoutDirectives).join('\n---\n')
  const bytes = Buffer.byteLength(JSON.stringify(joined))
  if (bytes <= bodyLimit - mostOtherBytes) return joined
  const size = (bytes / 2 ** 20).toFixed(2)
  throw new Error(
    `The resources of ${folder} take ${size} MiB, and a request has at most ${bodyLimit / 2 ** 20}: simulate a copy with fewer resources or comments.`,
  )
}

/** Directives may only precede the first document of a text: the documents of a file that has some, as JSON. */
function withoutDirectives(text: string): string {
  if (!/^%/m.test(text)) return text
  return parseYaml(text)
    .map(({ value }) => JSON.stringify(value))
    .join('\n---\n')
}

function show(response: SimulationResponse): string {
  const { from, to, answers, refused, refusals, limits, currency } = response
  const isEstimate = refusals.some(({ estimated }) => estimated)
  const sections = [
    printable(
      `Of ${count(answers)} responses from ${from} to ${to}, ${isEstimate ? 'about ' : ''}${count(refused)} would have been refused.`,
    ),
    table(
      ['USER', 'SUBSCRIPTION', 'MODEL', 'BY', 'REQUESTS', 'FIRST', 'LAST'],
      refusals.map((each) => [
        ...[
          printable(each.user),
          each.subscription,
          each.model,
          showLimit(each, currency, each.reason),
        ],
        ...[count(each.requests), each.first_at, each.last_at],
      ]),
      response.more_refusals,
    ),
    table(
      ['SUBSCRIPTION', 'MODEL', 'LIMIT', 'MOST USED', 'BY', ''],
      limits.map((each) => [
        ...[each.subscription ?? '-', each.model ?? each.models?.join(', ') ?? 'all'],
        ...[showLimit(each, currency), formatFigure(each.most, currency)],
        ...[printable(each.most_by ?? '-'), showNear(each, response)],
      ]),
      response.more_limits,
    ),
    lines(response.not_judged, (each) => {
      const limit = [each.name, each.kind, each.window].filter(Boolean).join(' ')
      const why = reasons[each.because as keyof typeof reasons]
      return `Not judged: ${limit} from ${each.from} to ${each.to}: ${why}.`
    }),
    response.refused_then_approximate > 0 &&
      `Not replayed: about ${formatCount(response.refused_then_approximate, 'request')} refused at that time.`,
    lines(
      response.gaps,
      (gap) => `Usage from ${gap.from} to ${gap.to ?? 'an unknown time'} was lost.`,
    ),
    lines(response.problems, (problem) => problem),
  ]
  return sections.filter(Boolean).join('\n\n')
}

const reasons = {
  sums_of_hours: 'only hourly sums are stored',
  longer_than_the_time: 'it is longer',
  groups_unknown: 'some past usage does not record the group whose counter it would use',
}

function showLimit(
  { name, kind, window, limit = 0 }: Partial<SimulationResponse['limits'][number]>,
  currency: string | undefined,
  otherwise = '',
): string {
  if (kind === undefined) return otherwise.replaceAll('_', ' ')
  const of = kind === 'cost' ? '' : ` ${kind}`
  return `${name ? `${name}: ` : ''}${formatFigure(limit, currency)}${of}${window ? ` / ${window}` : ''}`
}

function share({ most, limit }: SimulationResponse['limits'][number]): number {
  return Number(most) / Number(limit)
}

/** A limit with unknown usage is not reported as never near. */
function showNear(
  limit: SimulationResponse['limits'][number],
  response: SimulationResponse,
): string {
  if (limit.near) return renderBar(share(limit))
  const { name, kind, window } = limit
  const unknown = response.not_judged.filter(
    (each) =>
      each.name === name &&
      each.kind === kind &&
      each.window === window &&
      // These are not among the limits.
      each.because !== 'groups_unknown',
  )
  if (unknown.some(({ from, to }) => from <= response.from && to >= response.to))
    return 'not judged'
  return unknown.length > 0 ? 'judged in part' : 'never near'
}

function count(value: number): string {
  return value.toLocaleString('en')
}

function table(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  more: number,
): string | undefined {
  if (rows.length === 0) return undefined
  return `${renderTable(header, rows)}${more > 0 ? `\n… and ${count(more)} more` : ''}`
}

function lines<Item>(items: readonly Item[], showOne: (item: Item) => string): string {
  return items.map((item) => printable(showOne(item))).join('\n')
}
