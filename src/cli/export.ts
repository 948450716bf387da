/** `tollgate export`: prints the original's resources as ours, as YAML on standard output. */

import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { parseAllDocuments, stringify } from 'yaml'
import { isObject } from '../core/formats/fields.ts'
import { exportResources } from '../core/resources/export-resources.ts'
import { accessOf } from '../kubernetes/access.ts'
import { createClient, KubeError } from '../kubernetes/client.ts'
import { listObjects } from '../kubernetes/list.ts'
import { loadConfig } from '../settings/config.ts'
import { collections } from '../sources/collections.ts'
import { printable } from './table.ts'
import { type CommandIo, terminal } from './terminal.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate export [<file>... | -]

Converts resources of maas.opendatahub.io and inference.opendatahub.io to those of tollgate.dev and prints them as YAML, for kubectl
apply or a folder. Reads them from files, or without arguments from the cluster of KUBECONFIG or else of
the pod; - is standard input. Fields without a counterpart are named on standard error.

Exit status: 0 everything is printed, 1 a resource is missing, 2 invalid arguments.`

/**
 * Runs the command; returns the exit status. Rejects with a readable error if something cannot be
 * read.
 */
export async function exportCommand(
  args: readonly string[],
  io: Pick<CommandIo, 'env' | 'input' | 'out' | 'err'> = terminal,
): Promise<number> {
  const names = readCall(
    args,
    usage,
    (given) => (given.some((arg) => arg.startsWith('-') && arg !== '-') ? undefined : given),
    io,
  )
  if (typeof names === 'number') return names
  const objects = names.length === 0 ? await readCluster(io.env) : await readFiles(names, io.input)
  const { documents, notes } = exportResources(objects)
  for (const { severity, message } of notes) io.err(`${severity}: ${printable(message)}`)
  if (documents.length > 0) {
    io.out(documents.map((document) => stringify(document).trimEnd()).join('\n---\n'))
  }
  const missing = notes.filter(({ severity }) => severity === 'error').length
  io.err(`${documents.length} resources exported, ${missing} problems`)
  return missing > 0 ? 1 : 0
}

async function readCluster(env: NodeJS.ProcessEnv): Promise<readonly unknown[]> {
  const client = createClient(accessOf(loadConfig(env)), { timeoutMs: 30_000 })
  const objects: unknown[] = []
  for (const { apiGroup, kind, plural } of collections['maas.opendatahub.io']) {
    const apiVersion = `${apiGroup}/v1alpha1`
    const listed = await listObjects(client, `/apis/${apiVersion}/${plural}`).catch(absent)
    // The items of a list have no kind.
    for (const object of listed?.objects.values() ?? [])
      objects.push({ ...object, apiVersion, kind })
  }
  return objects
}

/** A kind that is not installed has no objects. */
function absent(error: unknown): undefined {
  if (!(error instanceof KubeError) || error.status !== 404) throw error
}

async function readFiles(
  paths: readonly string[],
  input: NodeJS.ReadableStream,
): Promise<readonly unknown[]> {
  const objects: unknown[] = []
  for (const path of paths) {
    const content = path === '-' ? await text(input) : await readFile(path, 'utf8')
    for (const document of parseAllDocuments(content)) {
      const [broken] = document.errors
      if (broken !== undefined) {
        throw new Error(`${path}: not valid YAML: ${broken.message.split('\n')[0]}`)
      }
      objects.push(...itemsOf(document.toJS({ maxAliasCount: 100 })))
    }
  }
  return objects
}

/** `kubectl get -o yaml` prints one List. */
function itemsOf(value: unknown): readonly unknown[] {
  return isObject(value) && value.kind === 'List' && Array.isArray(value.items)
    ? value.items
    : [value]
}
