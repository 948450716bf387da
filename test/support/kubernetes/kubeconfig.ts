import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { ClusterAccess } from '../../../src/kubernetes/client.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** Writes a KUBECONFIG for this access and returns its path; it is deleted when `t` ends. */
export function writeKubeconfig(t: Test, { server, ca, cert, key }: ClusterAccess): string {
  const base64 = (text: string | undefined) => text && Buffer.from(text).toString('base64')
  const user = { 'client-certificate-data': base64(cert), 'client-key-data': base64(key) }
  const path = join(temporaryFolder(t), 'config')
  writeFileSync(
    path,
    JSON.stringify({
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'c' },
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server, 'certificate-authority-data': base64(ca) } }],
      users: [{ name: 'u', user }],
    }),
  )
  return path
}
