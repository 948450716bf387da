/** The fields of a key in the flags of `tollgate key`, and a key's output. */

import type { ApiKeyResponse } from '../admin/keys/api-key-record.ts'
import { type FlagsOf, WrongCall } from './command.ts'
import type { editKeyFlags, newKeyFlags } from './commands/keys.ts'
import { renderTable } from './output.ts'

type Given = Partial<FlagsOf<typeof newKeyFlags> & Omit<FlagsOf<typeof editKeyFlags>, 'name'>>

const opposites = [
  ['label', 'no-labels'],
  ['model', 'no-models'],
  ['token-limit', 'no-token-limits'],
  ['limit', 'no-limits'],
  ['address', 'no-addresses'],
] as const

/** The fields of a request; fields without a flag are omitted. */
export function toKeyFields(given: Given): Readonly<Record<string, unknown>> {
  for (const [flag, none] of opposites) {
    if (given[flag] !== undefined && given[none]) {
      throw new WrongCall(`Give either --${flag} or --${none}.`)
    }
  }
  const { description, label, model, limit, address, 'token-limit': tokenLimit } = given
  const fields = {
    description,
    labels: given['no-labels'] ? {} : label && parseLabels(label),
    models: given['no-models'] ? null : model?.map(readModel),
    tokenRateLimits: given['no-token-limits'] ? null : tokenLimit?.map(readTokenLimit),
    limits: given['no-limits'] ? null : limit?.map(readLimit),
    allowedAddresses: given['no-addresses'] ? null : address,
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** `--label team=search`, any number of times. */
export function parseLabels(raw: readonly string[] = []): Record<string, string> {
  const labels = raw.map((label): readonly [string, string] => {
    const at = label.indexOf('=')
    if (at < 1) throw new WrongCall('Write a label as <name>=<value>.')
    return [label.slice(0, at), label.slice(at + 1)]
  })
  const values = new Map(labels)
  const twice = labels.find(([name, value]) => values.get(name) !== value)?.[0]
  if (twice !== undefined) throw new WrongCall(`The label ${twice} has two values.`)
  return Object.fromEntries(labels)
}

function readModel(raw: string): { readonly namespace: string; readonly name: string } {
  const [namespace, name, ...rest] = raw.split('/')
  if (namespace && name && rest.length === 0) return { namespace, name }
  throw new WrongCall('Write a model as <namespace>/<name>.')
}

/** `1000/1m`; the server validates the window. */
function readTokenLimit(raw: string): { readonly limit: number; readonly window: string } {
  const [, limit, window] = /^(\d{1,10})\/(\w{1,16})$/.exec(raw) ?? []
  if (limit !== undefined && window !== undefined) return { limit: Number(limit), window }
  throw new WrongCall('Write a token limit as <tokens>/<window>, like 1000/1m.')
}

const limitNames = ['name', 'of', 'limit', 'window', 'model', 'enforce']

/** `name=daily,of=cost,limit=5,window=day`; the server validates kinds and windows. */
function readLimit(raw: string): Readonly<Record<string, unknown>> {
  const models: ReturnType<typeof readModel>[] = []
  const fields: Record<string, unknown> = {}
  for (const part of raw.split(',')) {
    const [, name = '', value = ''] = /^(\w+)=(.+)$/.exec(part) ?? []
    if (!limitNames.includes(name) || name in fields) throw wrongLimit(part)
    if (name === 'model') models.push(readModel(value))
    else fields[name] = value
  }
  const { limit, of, enforce = 'true' } = fields
  if (!/^[\d.]{1,32}$/.test(`${limit}`)) throw wrongLimit(`limit=${limit ?? ''}`)
  if (enforce !== 'true' && enforce !== 'false') throw wrongLimit(`enforce=${enforce}`)
  if (of !== 'cost') fields.limit = Number(limit)
  if (enforce === 'false') fields.enforce = false
  else delete fields.enforce
  return models.length > 0 ? { ...fields, models } : fields
}

function wrongLimit(part: string): WrongCall {
  const form = 'name=<name>,limit=<amount>,window=<window>'
  const more = 'of=<kind>, enforce=false and model=<namespace>/<name>'
  return new WrongCall(`${part}: write a limit as ${form}, and with ${more} if needed.`)
}

/** In the form of the flag. */
function showLimit({
  models = [],
  ...limit
}: NonNullable<ApiKeyResponse['limits']>[number]): string {
  const { name, of, window, enforce } = limit
  const fields = Object.entries({ name, of, limit: limit.limit, window, enforce }).flatMap(
    ([name, value]) => (value === undefined ? [] : `${name}=${value}`),
  )
  return [...fields, ...models.map((model) => `model=${model.namespace}/${model.name}`)].join(',')
}

/** A key with all fields of its record. */
export function showKey(record: ApiKeyResponse): string {
  const {
    labels = {},
    models = [],
    tokenRateLimits = [],
    limits = [],
    allowedAddresses = [],
  } = record
  const rows = [
    ['ID', record.id],
    ['KEY', record.keyPrefix ?? ''],
    ['NAME', record.name],
    ['DESCRIPTION', record.description ?? ''],
    ['USER', record.username],
    ['SUBSCRIPTION', record.subscription],
    ['STATUS', record.ephemeral ? `${record.status} (ephemeral)` : record.status],
    ['CREATED', record.createdAt],
    ['EXPIRES', `${record.expiresAt ?? ''}${record.expiresSoon ? ' (soon)' : ''}`],
    ['LAST USED', record.lastUsedAt ?? ''],
    ...Object.entries(labels).map(([name, value]) => ['LABEL', `${name}=${value}`]),
    ...models.map(({ namespace, name }) => ['MODEL', `${namespace}/${name}`]),
    ...tokenRateLimits.map(({ limit, window }) => ['TOKEN LIMIT', `${limit}/${window}`]),
    ...limits.map((limit) => ['LIMIT', showLimit(limit)]),
    ...allowedAddresses.map((address) => ['ADDRESS', address]),
  ]
  const shown = rows.filter(([, value]) => value !== '')
  return renderTable(['FIELD', 'VALUE'], shown, 1_024)
}
