/** `tollgate envoy-config`: prints, writes or validates Envoy's bootstrap for the settings. */

import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { checkEnvoyFiles, renderEnvoyFiles, writeEnvoyFiles } from '../gateway/envoy-files.ts'
import { findEnvoy } from '../local/envoy-binary.ts'
import { StartError } from '../runtime/start-error.ts'
import { type Config, loadConfig } from '../settings/config.ts'
import { switches } from './flags.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate envoy-config [--write | --validate]

  (nothing)    prints the complete configuration for an Envoy of your own, as JSON
  --write      writes it to ENVOY_CONFIG_DIR (default DATA_DIR/envoy), where the service writes the
               clusters: bootstrap.json, certificate.json with GATEWAY_TLS_CERT_FILE, and clusters.json
               if it is missing; creates the folder of USAGE_JOURNAL; prints the path of bootstrap.json
  --validate   validates it with Envoy (ENVOY_PATH, else envoy on PATH), in a temporary folder

Settings: GATEWAY_ADDRESS, GATEWAY_TLS_CERT_FILE, GATEWAY_TLS_KEY_FILE, GATEWAY_TRUSTED_HOPS,
GATEWAY_GRPC_ENDPOINTS and GATEWAY_API_ENDPOINTS (one for each process of the service),
ENVOY_ADMIN_ADDRESS, USAGE_JOURNAL, BACKEND_CA_FILE, CORS_ALLOWED_ORIGINS, BODY_LIMIT, BODY_TIMEOUT,
ENVOY_HEAP_BYTES, ENVOY_CONFIG_DIR. Start Envoy with: envoy -c <path> --file-flush-interval-msec 1000`

/**
 * Runs the command; returns the exit status, 2 for invalid arguments. Rejects with a readable
 * error.
 */
export async function envoyConfig(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  out: (text: string) => void = console.log,
  err: (text: string) => void = console.error,
): Promise<number> {
  const call = readCall(args, usage, readArguments, { out, err })
  if (typeof call === 'number') return call
  const config = loadConfig(env, checkEnvoyFiles)
  if (config.tlsCertFile !== undefined) {
    err('TLS_CERT_FILE: add the part of envoy/README.md under "TLS to the service".')
  }
  if (call.validate) out(await validate(config, env))
  else if (call.write) out(await writeEnvoyFiles(config))
  else out(renderEnvoyFiles(config).bootstrap.trimEnd())
  return 0
}

function readArguments(args: string[]) {
  const { values } = parseArgs({
    args,
    options: switches('write', 'validate'),
  })
  return values.write && values.validate ? undefined : values
}

/**
 * Envoy's own validation. It opens the files that it would write, so they are in a temporary
 * folder.
 */
async function validate(config: Config, env: NodeJS.ProcessEnv): Promise<string> {
  const log = (line: string) => console.error(line)
  const envoy = await findEnvoy({ path: config.envoyPath, env, log })
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-envoy-'))
  try {
    const path = await writeEnvoyFiles({
      ...config,
      envoyConfigDir: folder,
      ...(config.usageJournal !== undefined && { usageJournal: join(folder, 'usage.jsonl') }),
    })
    await promisify(execFile)(envoy, ['--mode', 'validate', '--log-level', 'error', '-c', path])
    return `${envoy} accepts it.`
  } catch (error) {
    throw new StartError(
      `Envoy refuses it: ${(error as { stderr?: string }).stderr ?? error}`.trim(),
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
