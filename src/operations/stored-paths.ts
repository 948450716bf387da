/**
 * The paths of what a model's server stores. All callers of the model share its account, so these are closed
 * unless the ModelRef says that they may share it.
 */

import { isKnown, meterable, mostLoosely, type Refusal } from './operations.ts'

/** Families of operations below which a server keeps something in its account, of those that every model serves. */
const stored = /^\/v1\/(?:responses|chat\/completions|files|batches)(?:\/.*)?$/s
/** These make something, or take an upload. Each names what is stored, if at all, in its body. */
const makes: ReadonlySet<string> = new Set([
  meterable.responses,
  meterable.chat,
  '/v1/files',
  '/v1/batches',
])

/**
 * Refuses what lists, reads, changes or ends things that are stored at a server, whose account all callers of
 * the model share; undefined: it does not. With `allPaths`, every spelling of such a path, whatever is known to
 * be stored elsewhere, and whatever changes the server.
 */
export function refuseStored(
  operation: string,
  method: string,
  allPaths = false,
): Refusal | undefined {
  if (method === 'POST' && makes.has(operation)) return undefined
  const isStored =
    stored.test(operation) ||
    (allPaths && !isKnown(operation, method) && mayBeStored(operation, method))
  if (!isStored) return undefined
  return { code: 'path_closed', detail: { about: 'stored', operation, method } }
}

/** The fields of its body that name something stored, of an operation whose body the gateway does not read. */
export function unreadFields(operation: string, method: string): readonly string[] {
  return operation === '/v1/batches' && method === 'POST' ? ['input_file_id'] : []
}

/** Methods that change or end what is there already. */
const changes: ReadonlySet<string> = new Set(['DELETE', 'PATCH'])

/**
 * What servers and proxies keep below `/v1`, by the segment of the path: of callers (files, agents, jobs,
 * sessions, which are also credentials for the server itself), or of the operator (keys, teams, settings).
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
/** Below these is what they have answered. */
const inference: ReadonlySet<string> = new Set(['completions', 'messages'])
/** Verbs with which servers are administered: `load_lora_adapter`, `reset_prefix_cache`, `models/unload`. */
const administers =
  /^(?:un)?(?:load|register)\b|^(?:abort|cancel|collective|delete|flush|kill|pause|pull|push|reload|remove|reset|restart|resume|revoke|rotate|shutdown|sleep|stop|update|wake)\b/

/** As the most lenient server reads the path, behind whatever prefix. */
function mayBeStored(operation: string, method: string): boolean {
  if (changes.has(method)) return true
  const segments = mostLoosely(operation).slice(1).split('/')
  // A server that decodes more often than the gateway would leave the API.
  if (segments[0] !== 'v1') return true
  return segments.some((segment, i) => {
    const name = segment.replace(/\..*$/, '')
    if (collections.has(name) || administers.test(name.replaceAll('_', ' '))) return true
    return inference.has(name) && (i < segments.length - 1 || method !== 'POST')
  })
}
