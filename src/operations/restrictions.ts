/**
 * The parts of an open operation that are closed, because all callers of a model share its account at the server or
 * because they would not be counted: fields of its body, and the paths of stored objects. Only the decision can know,
 * because it depends on the model or on the settings. On shared paths the gateway's script has read the body before the
 * model is known, and names the fields that it has found; where the path names the model, the script decides on them
 * itself, by `formatOpenFields`.
 */

import { internalFields, modelChoosingFields } from '../kinds/body-fields.ts'
import type { ModelRef } from '../kinds/resources.ts'
import { isKnownOperation, lenientPath, meterable, type PathRefusal } from './operations.ts'

/** Prefix of the list of fields that the script has found, separated by commas; no other problem begins with it. */
const found = 'fields '

/** The fields that the script has found; undefined if it reports another problem or none. */
export function parseFoundFields(problem: string | undefined): readonly string[] | undefined {
  return problem?.startsWith(found) ? problem.slice(found.length).split(',') : undefined
}

/** Why these fields are refused where tokens are counted. The script has the same texts. */
const uncounted: ReadonlyMap<string, string> = new Map([
  ...['background', 'deferred'].map(
    (name) =>
      [
        name,
        `${name} must be false or left out, because the tokens of such a response are not counted`,
      ] as const,
  ),
  [
    'additional_drop_params',
    'additional_drop_params may leave out a maximum, or the request for the usage that is counted',
  ],
])

const choosing: ReadonlySet<string> = new Set(modelChoosingFields)
const internal: ReadonlySet<string> = new Set(internalFields)

/**
 * Why the first of these fields that the model does not open is refused, or undefined if all are open. An unknown field
 * counts as one that names a stored object.
 */
export function refuseFields(
  fields: readonly string[],
  model: ModelRef,
  isMetered: boolean,
): string | undefined {
  for (const field of fields) {
    const problem = uncounted.get(field)
    if (problem !== undefined) {
      if (isMetered) return problem
    } else if (choosing.has(field)) {
      if (namesItsModel(model) && !opens(model, field)) return choosingProblem(field)
    } else if (internal.has(field)) {
      if (!opens(model, field)) return internalProblem(field)
    } else if (model.state !== 'shared') {
      return stateProblem(field)
    }
  }
  return undefined
}

/** Whether the body's name is compared with the model's, or replaced, so that nothing else may choose a model. */
function namesItsModel({ modelIds, server }: ModelRef): boolean {
  return modelIds.length > 0 || server.upstreamModel !== undefined
}

function opens({ modelFields }: ModelRef, field: string): boolean {
  return modelFields.some((each) => each === field)
}

/** Tells the script which fields of a model's bodies are open; undefined if none are. */
export function formatOpenFields({ state, modelFields }: ModelRef): string | undefined {
  const opened = [...(state === 'shared' ? ['state'] : []), ...modelFields]
  return opened.length === 0 ? undefined : opened.join(' ')
}

function choosingProblem(field: string): string {
  return `${field} may choose another model or account than the one that is checked and counted; spec.modelFields of the ModelRef allows it`
}

function internalProblem(field: string): string {
  return `${field} is for the servers of a model, and may give access to the memory of other requests there; spec.modelFields of the ModelRef allows it`
}

/** The script has the same text, and those for the other fields. */
function stateProblem(field: string): string {
  return `${field} names what is stored in the account that all callers of this model share; spec.state: shared of its ModelRef allows it`
}

/** Families of the operations of every model below which a server stores objects in its account. */
const stored = /^\/v1\/(?:responses|chat\/completions|files|batches)(?:\/.*)?$/s
/** These create something, or take an upload. Each names stored objects only in its body, if at all. */
const makes: ReadonlySet<string> = new Set([
  meterable.responses,
  meterable.chat,
  '/v1/files',
  '/v1/batches',
])

/**
 * Refuses operations that list, read, change or end objects stored at a server, whose account all callers of the model
 * share; undefined for any other. With `allPaths`, this covers every spelling of such a path, all known collections of
 * other servers, and all operations that change the server.
 */
export function refuseStoredObjects(
  operation: string,
  method: string,
  allPaths = false,
): PathRefusal | undefined {
  if (method === 'POST' && makes.has(operation)) return undefined
  const isStored =
    stored.test(operation) ||
    (allPaths && !isKnownOperation(operation, method) && mayBeStored(operation, method))
  if (!isStored) return undefined
  return { code: 'path_closed', detail: { about: 'stored', operation, method } }
}

/** For an operation whose body the gateway does not read: its fields that name something stored. */
export function unreadFields(operation: string, method: string): readonly string[] {
  return operation === '/v1/batches' && method === 'POST' ? ['input_file_id'] : []
}

/** Methods that change or end existing objects. */
const changes: ReadonlySet<string> = new Set(['DELETE', 'PATCH'])

/**
 * Collections that servers and proxies store below `/v1`, by segment of the path: objects of callers (files, agents,
 * jobs, sessions, which are also credentials for the server itself), or of the operator (keys, teams, settings).
 */
const collections: ReadonlySet<string> = new Set([
  ...['files', 'batch', 'batches', 'uploads', 'upload', 'documents', 'datasets', 'collections'],
  ...['responses', 'interactions', 'conversations', 'threads', 'assistants', 'agents', 'runs'],
  ...['containers', 'sandboxes', 'skills', 'videos', 'prompts', 'memory', 'memories', 'rag'],
  ...['vector_store', 'vector_stores', 'vector-stores', 'cachedcontents', 'cached_contents'],
  ...['realtime', 'sessions', 'deferred-completion', 'async', 'jobs', 'tasks', 'queue'],
  ...['evals', 'evaluations', 'fine_tuning', 'fine-tuning', 'fine-tunes', 'fine_tunes', 'tuning'],
  ...['key', 'keys', 'user', 'users', 'team', 'teams', 'customer', 'customers', 'budget'],
  ...['organization', 'organizations', 'projects', 'credentials', 'config', 'spend', 'audit'],
  ...['mcp', 'a2a', 'guardrails', 'access_group', 'tag', 'tags', 'slots', 'lora-adapters'],
])
/** Their stored responses are below these. */
const inference: ReadonlySet<string> = new Set(['completions', 'messages'])
/** Verbs that administer servers: `load_lora_adapter`, `reset_prefix_cache`, `models/unload`. */
const administers =
  /^(?:un)?(?:load|register)\b|^(?:abort|cancel|collective|delete|flush|kill|pause|pull|push|reload|remove|reset|restart|resume|revoke|rotate|shutdown|sleep|stop|update|wake)\b/

/** Reads the path as the most lenient server does, after any prefix. */
function mayBeStored(operation: string, method: string): boolean {
  if (changes.has(method)) return true
  const segments = lenientPath(operation).slice(1).split('/')
  // A server that decodes more often than the gateway would leave the API.
  if (segments[0] !== 'v1') return true
  return segments.some((segment, i) => {
    const name = segment.replace(/\..*$/, '')
    if (collections.has(name) || administers.test(name.replaceAll('_', ' '))) return true
    return inference.has(name) && (i < segments.length - 1 || method !== 'POST')
  })
}
