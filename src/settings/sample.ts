/** The sample of `npm start`: its resources and its identities, which are public. */

import { join, resolve } from 'node:path'
import type { Address, SocketAddress } from '../formats/address.ts'
import { isLoopback } from '../formats/trustworthy.ts'
import { packageRoot } from '../runtime/package-root.ts'

/** The shipped sample resources. */
export const sampleResourceFolder = join(packageRoot, 'examples', 'resources')

/** Their copy with another address of the sample model server. */
export const movedSampleFolder = (dataDir: string): string => join(dataDir, 'sample-resources')

/** The shipped sample identities: tokens like `alice-token`. */
export const sampleTokensFile = join(packageRoot, 'examples', 'tokens.csv')

interface Served {
  readonly tokenAuthFile: string | undefined
  readonly resourceFolder: string | undefined
  readonly dataDir: string
  readonly gatewayAddress: SocketAddress
  readonly apiAddress: Address
}

/** Whether identities and resources are the sample's, and only this machine reaches them. */
export function isSampleInstallation(config: Served): boolean {
  const { tokenAuthFile = '', resourceFolder, dataDir, gatewayAddress, apiAddress } = config
  const folders = [sampleResourceFolder, movedSampleFolder(dataDir)]
  return (
    resolve(tokenAuthFile) === sampleTokensFile &&
    resourceFolder !== undefined &&
    folders.includes(resourceFolder) &&
    isLoopback(gatewayAddress.host) &&
    ('path' in apiAddress || isLoopback(apiAddress.host))
  )
}
