/** The resources of `tollgate up`, and whether they need the sample model server. */

import { join } from 'node:path'
import { formatAddress, type SocketAddress } from '../src/formats/address.ts'
import { addressRulesOf } from '../src/gateway/address-rules.ts'
import type { CheckAddress } from '../src/models/rules/refuse-addresses.ts'
import { loadSnapshot } from '../src/models/sources/pipeline.ts'
import { StartError } from '../src/runtime/start-error.ts'
import { movedSampleFolder } from '../src/settings/sample.ts'
import { freePort, isSet } from './own-addresses.ts'
import { checkPorts, whyNot } from './ports.ts'
import { writeSampleResources } from './sample-resources.ts'
import { localUrl, sampleModelServer, type UpSettings } from './up-settings.ts'

interface Models {
  /** Undefined if the resources come from the cluster. */
  readonly resourceFolder: string | undefined
  /** Undefined if no resource needs the sample model server. */
  readonly modelServerAddress: SocketAddress | undefined
}

/**
 * The folder of resources: the user's own, the sample's, or a copy of the sample's with another address
 * of the sample model server, which is for resources that name it. Rejects with a StartError that names
 * every invalid document.
 */
export async function chooseModels(
  settings: UpSettings,
  log: (line: string) => void,
): Promise<Models> {
  const { env, config, sampleResources } = settings
  const { resourceFolder, modelServerAddress: usual } = config
  if (resourceFolder === undefined) return { resourceFolder, modelServerAddress: undefined }
  const named = await readResources(resourceFolder, addressRulesOf(config), log)
  if (sampleResources) {
    const isMoved = usual.port === 0 || (await whyNot(usual.host, usual.port)) !== undefined
    const modelServerAddress = isMoved ? { ...usual, port: await freePort(usual.host) } : usual
    const url = localUrl(modelServerAddress)
    if (url === `http://${sampleModelServer}`) return { resourceFolder, modelServerAddress }
    const folder = movedSampleFolder(config.dataDir)
    writeSampleResources(folder, url)
    return { resourceFolder: folder, modelServerAddress }
  }
  if (!named.has(new URL(localUrl(usual)).host)) {
    return { resourceFolder, modelServerAddress: undefined }
  }
  if (isSet(env, 'MODEL_SERVER_ADDRESS')) {
    await checkPorts([{ setting: 'MODEL_SERVER_ADDRESS', ...usual }])
  } else if ((await whyNot(usual.host, usual.port)) !== undefined) {
    log(`${formatAddress(usual)} is in use, so a model server of yours answers there`)
    return { resourceFolder, modelServerAddress: undefined }
  }
  return { resourceFolder, modelServerAddress: usual }
}

/**
 * The addresses (`host:port`) of the models. Throws a StartError that names every invalid document. A running service
 * would continue with the others, but at a start the user should fix them first.
 */
async function readResources(
  folder: string,
  check: CheckAddress,
  log: (line: string) => void,
): Promise<ReadonlySet<string>> {
  const { snapshot, problems } = await loadSnapshot(folder, { checkAddress: check }).catch(
    (cause) => {
      throw new StartError(`RESOURCES: ${folder} cannot be read.`, { cause })
    },
  )
  const shown = { error: [] as string[], warning: [] as string[] }
  for (const { file, line, severity, message } of problems) {
    shown[severity].push(`${join(folder, file)}:${line}: ${message}`)
  }
  for (const warning of shown.warning) log(`Warning: ${warning}`)
  if (shown.error.length > 0) throw new StartError(shown.error.join('\n'))
  const urls = [...snapshot.models.values()].map(({ resource }) => resource.backendUrl)
  return new Set(urls.flatMap((url) => URL.parse(url ?? '')?.host ?? []))
}
