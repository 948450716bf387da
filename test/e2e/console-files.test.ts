import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { joinClusters } from '../../src/gateway/clusters.ts'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import { prepareFolder } from '../../src/journal/prepare-folder.ts'
import { replaceFile } from '../../src/runtime/replace-file.ts'
import { everyProcessIsAsked, startEnvoy } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const skip = envoyPath() === undefined && 'no Envoy'

/** The API of a process that has this file of the console's page alone; the paths that it was asked for. */
async function startApi(t: Test, file: string) {
  const asked: string[] = []
  const server = createServer((request, response) => {
    if (request.url !== '/health') asked.push(request.url ?? '')
    response.statusCode = ['/health', file].includes(request.url ?? '') ? 200 : 404
    response.end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  t.teardown(() => server.closeAllConnections())
  return { asked, address: { host: '127.0.0.1', port: (server.address() as AddressInfo).port } }
}

t.test(
  'the page of either version gets its files from the process that has them',
  { skip },
  async (t) => {
    const files = ['/console/assets/index-older.js', '/console/assets/index-newer.js']
    const apis = await Promise.all(files.map((file) => startApi(t, file)))
    const folder = temporaryFolder(t)
    const clustersFile = join(folder, 'clusters.json')
    await replaceFile(clustersFile, joinClusters([], '1'))
    const lines = journalFilesOf(join(folder, 'lines', 'usage.jsonl'))
    prepareFolder(lines, 0o600)
    const api = apis.map(({ address }) => address)
    const envoy = await startEnvoy(t, { folder, clustersFile, lines, api, grpc: api })
    await everyProcessIsAsked(envoy, ['api'])
    const statusOf = async (path: string) =>
      (await fetch(`http://127.0.0.1:${envoy.port}${path}`)).status
    // Not in turn, because Envoy asks the processes in turn.
    for (const file of files) {
      for (let i = 0; i < 8; i += 1) t.equal(await statusOf(file), 200, file)
    }
    for (const { asked } of apis) asked.length = 0
    t.equal(await statusOf('/console/assets/none.js'), 404)
    t.equal(await statusOf('/v1/models/none'), 404)
    t.equal(
      apis.flatMap(({ asked }) => asked).filter((path) => path === '/v1/models/none').length,
      1,
    )
  },
)
