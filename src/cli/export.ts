/** `tollgate export`: converts models-as-a-service's resources to Tollgate's, as YAML on standard output. */

import { stringify } from 'yaml'
import { accessOf } from '../kubernetes/access.ts'
import { createClient, KubeError } from '../kubernetes/client.ts'
import { listObjects } from '../kubernetes/list.ts'
import { exportResources } from '../models/rules/export-resources.ts'
import { originalGroup } from '../models/rules/original/original-kinds.ts'
import { listedObjects } from '../models/rules/reading/listed-objects.ts'
import { collections } from '../models/sources/collections.ts'
import { parseYaml } from '../models/sources/yaml-documents.ts'
import { loadConfig } from '../settings/config.ts'
import type { Run } from './command.ts'
import type { jsonFlag } from './commands/flags.ts'
import { readInputFile } from './input-file.ts'
import { formatCount, formatJson, printable } from './output.ts'

/** Runs the command; returns the exit status. Rejects with a readable error if something cannot be read. */
export const runExport: Run<typeof jsonFlag> = async ({ operands: names, flags }, io) => {
  const objects = names.length === 0 ? await readCluster(io.env) : await readFiles(names, io.input)
  const { documents, notes } = exportResources(objects)
  for (const { severity, message } of notes) io.err(`${severity}: ${printable(message)}`)
  if (flags.json) io.out(formatJson({ apiVersion: 'v1', kind: 'List', items: documents }))
  else if (documents.length > 0) {
    io.out(documents.map((document) => stringify(document).trimEnd()).join('\n---\n'))
  }
  const missing = notes.filter(({ severity }) => severity === 'error').length
  io.err(
    `${formatCount(documents.length, 'resource')} exported, ${formatCount(missing, 'problem')}`,
  )
  return missing > 0 ? 1 : 0
}

async function readCluster(env: NodeJS.ProcessEnv): Promise<readonly unknown[]> {
  const config = loadConfig(env)
  if (config.kubeconfig === undefined && config.kubernetesHost === undefined) {
    throw new Error('Name files, or set KUBECONFIG to read the cluster from outside of its pods.')
  }
  const client = createClient(accessOf(config), { timeoutMs: 30_000 })
  const objects: unknown[] = []
  for (const { apiGroup, kind, plural } of collections[originalGroup]) {
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
    const content = await readInputFile(path, input)
    for (const { value, problem } of parseYaml(content)) {
      if (problem !== undefined) throw new Error(`${path}: not valid YAML: ${problem.message}`)
      objects.push(...listedObjects(value).map(({ object }) => object))
    }
  }
  return objects
}
