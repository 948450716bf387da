/** `tollgate envoy-config`: prints, writes or validates Envoy's bootstrap for the settings. */

import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findEnvoy } from '../../dev/envoy-binary.ts'
import { checkEnvoyFiles, renderEnvoyFiles, writeEnvoyFiles } from '../gateway/envoy-files.ts'
import { StartError } from '../runtime/start-error.ts'
import { checkEnvoyFolders } from '../settings/check-files.ts'
import { type Config, loadConfig } from '../settings/config.ts'
import { type Run, WrongCall } from './command.ts'
import type { envoyConfigFlags } from './commands/run.ts'
import { formatJson } from './output.ts'

/** Runs the command; returns the exit status. Rejects with a readable error. */
export const envoyConfig: Run<typeof envoyConfigFlags> = async ({ flags }, { env, out, err }) => {
  if (flags.write && flags.validate) throw new WrongCall('Either --write or --validate, not both.')
  const config = loadConfig(env, (config) => [
    ...checkEnvoyFiles(config),
    ...(flags.write ? checkEnvoyFolders(config) : []),
  ])
  if (config.tlsCertFile !== undefined) {
    err('TLS_CERT_FILE: add the section "TLS to the service" of envoy/README.md.')
  }
  if (flags.validate) {
    const envoy = await validate(config, env, err)
    out(flags.json ? formatJson({ envoy, accepted: true }) : `${envoy} accepts it.`)
  } else if (flags.write) {
    const path = await writeEnvoyFiles(config)
    out(flags.json ? formatJson({ path }) : path)
  } else out(renderEnvoyFiles(config).bootstrap.trimEnd())
  return 0
}

/**
 * Envoy's own validation; returns the path of Envoy. It opens the files that it would write, so they are in a temporary
 * folder.
 */
async function validate(
  config: Config,
  env: NodeJS.ProcessEnv,
  log: (line: string) => void,
): Promise<string> {
  const envoy = await findEnvoy({ path: config.envoyPath, env, log })
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-envoy-'))
  try {
    const path = await writeEnvoyFiles({
      ...config,
      envoyConfigDir: folder,
      ...(config.usageJournal !== undefined && { usageJournal: join(folder, 'usage.jsonl') }),
    })
    await promisify(execFile)(envoy, ['--mode', 'validate', '--log-level', 'error', '-c', path])
    return envoy
  } catch (error) {
    const { stderr } = error as { stderr?: string }
    if (stderr === undefined) throw error
    throw new StartError(`Envoy rejects the configuration: ${stderr || error}`.trim())
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
