import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { promisify } from 'node:util'
import { test } from 'tap'
import {
  parseBootstrapTemplate,
  readBootstrapTemplate,
} from '../../src/gateway/bootstrap-template.ts'
import {
  type Backend,
  joinClusters,
  renderCluster,
  writeClusters,
} from '../../src/gateway/clusters.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const envoy = process.env.ENVOY_PATH

type Cluster = {
  name: string
  type: string
  transport_socket?: { typed_config: Record<string, unknown> }
  load_assignment: { endpoints: { lb_endpoints: { endpoint: unknown }[] }[] }
  typed_extension_protocol_options: Record<string, { http_filters?: object[] }>
}
type Discovery = { version_info: string; resources: Cluster[] }

const render = (backends: readonly Backend[], version = '1') =>
  JSON.parse(joinClusters(backends.map(renderCluster), version)) as Discovery
const cluster = (backendUrl: string) => render([{ cluster: 'm', backendUrl }]).resources[0]
const endpoint = (backendUrl: string) =>
  cluster(backendUrl)?.load_assignment.endpoints[0]?.lb_endpoints[0]?.endpoint

test('a backend URL becomes an address and a host name', async (t) => {
  const cases: [url: string, type: string, host: string, address: string, port: number][] = [
    ['http://127.0.0.1:9000', 'STATIC', '127.0.0.1:9000', '127.0.0.1', 9000],
    ['http://127.0.0.1:9000/base/path', 'STATIC', '127.0.0.1:9000', '127.0.0.1', 9000],
    ['http://[::1]:9000', 'STATIC', '[::1]:9000', '::1', 9000],
    ['http://model.example', 'STRICT_DNS', 'model.example', 'model.example', 80],
    ['https://model.example', 'STRICT_DNS', 'model.example', 'model.example', 443],
    ['https://model.example:8443', 'STRICT_DNS', 'model.example:8443', 'model.example', 8443],
  ]
  for (const [url, type, hostname, address, port] of cases) {
    t.equal(cluster(url)?.type, type, url)
    t.strictSame(endpoint(url), {
      hostname,
      address: { socket_address: { address, port_value: port } },
    })
  }
})

test('https verifies the host name', async (t) => {
  t.equal(cluster('http://model.example')?.transport_socket, undefined)
  t.match(cluster('https://model.example')?.transport_socket?.typed_config, {
    sni: 'model.example',
    common_tls_context: {
      combined_validation_context: {
        default_validation_context: {
          match_typed_subject_alt_names: [{ san_type: 'DNS', matcher: { exact: 'model.example' } }],
        },
        validation_context_sds_secret_config: { name: 'authorities' },
      },
    },
  })
  const byAddress = cluster('https://[::1]:8443')?.transport_socket?.typed_config
  t.notOk(byAddress && 'sni' in byAddress, 'an IP address is not sent as SNI')
  t.match(JSON.stringify(byAddress), '{"san_type":"IP_ADDRESS","matcher":{"exact":"::1"}}')
})

test('a host name resolves to all its addresses', async (t) => {
  t.match(cluster('http://model.example'), {
    dns_lookup_family: 'ALL',
    outlier_detection: { consecutive_local_origin_failure: 3, enforcing_consecutive_5xx: 0 },
  })
  t.notMatch(cluster('http://127.0.0.1:1'), { outlier_detection: {} })
})

test('the Host header and SNI may differ from the address', async (t) => {
  const backendUrl = 'https://10.96.0.7:8443/llm/small'
  const [found] = render([{ cluster: 'm', backendUrl, host: 'models.example.com' }]).resources
  const text = JSON.stringify(found)
  t.match(text, '"address":"10.96.0.7","port_value":8443')
  t.match(text, '"hostname":"models.example.com"')
  t.match(text, '"sni":"models.example.com"')
  t.match(text, '"san_type":"DNS","matcher":{"exact":"models.example.com"}')
  const plain = { cluster: 'm', backendUrl: 'http://small.llm.svc.cluster.local.:8000' }
  const named = JSON.stringify(render([{ ...plain, host: 'small.llm.svc.cluster.local' }]))
  t.match(named, '"address":"small.llm.svc.cluster.local.","port_value":8000')
  t.match(named, '"hostname":"small.llm.svc.cluster.local"')
})

test('secrets are referenced by name and file', async (t) => {
  const place = (name: string) => ({ name, path: `/secrets/${name}.json` })
  const text = renderCluster({
    cluster: 'm',
    backendUrl: 'https://model.example',
    connectMs: 500,
    credential: { header: 'api-key', secret: place('one') },
    authorities: place('two'),
  })
  t.match(text, '"connect_timeout":"0.5s"')
  t.match(text, '"header":"api-key","credential":{"name":"one"')
  t.match(text, '"path":"/secrets/one.json"')
  t.match(text, '"validation_context_sds_secret_config":{"name":"two"')
  t.match(text, '"path":"/secrets/two.json"')
})

test('a cluster with a credential removes the same headers as the others', async (t) => {
  const template = JSON.parse(JSON.stringify(parseBootstrapTemplate(readBootstrapTemplate())))
  const [connections] = template.static_resources.listeners[0].filter_chains[0].filters
  const router = connections.typed_config.http_filters.at(-1).typed_config
  const backendUrl = 'http://model.example'
  const credential = { header: 'api-key', secret: { name: 'one', path: '/secrets/one.json' } }
  const [found] = render([{ cluster: 'm', backendUrl, credential }]).resources
  const options = Object.values(found?.typed_extension_protocol_options ?? {})[0]
  t.strictSame(options?.http_filters?.slice(1), router.upstream_http_filters)
})

test('a cluster does not depend on the others', async (t) => {
  const one = { cluster: 'one', backendUrl: 'http://127.0.0.1:1' }
  const two = { cluster: 'two', backendUrl: 'http://127.0.0.1:2' }
  t.strictSame(render([one], 'a').resources[0], render([two, one], 'b').resources[1])
  t.equal(render([one], 'a').version_info, 'a')
})

test('rejects other schemes', async (t) => {
  for (const url of ['ftp://model.example', 'unix:/run/model.sock', 'model.example:80', '']) {
    t.throws(() => cluster(url), TypeError, url)
  }
})

test('concurrent writes leave one complete file', async (t) => {
  const directory = join(temporaryFolder(t), 'made', 'on', 'the', 'way')
  const texts = Array.from({ length: 10 }, (_, i) => `${i}`.repeat(100_000))
  await Promise.all(texts.map((text) => writeClusters(directory, text)))
  t.strictSame(await readdir(directory), ['clusters.json'])
  t.ok(texts.includes(await readFile(join(directory, 'clusters.json'), 'utf8')))
})

test('a failed write leaves no temporary file', async (t) => {
  // A folder cannot be replaced by a file.
  const directory = temporaryFolder(t, { 'clusters.json': { inside: '' } })
  await t.rejects(writeClusters(directory, 'text'))
  t.strictSame(await readdir(directory), ['clusters.json'])
})

test('Envoy accepts every kind of cluster', {
  skip: envoy === undefined ? 'ENVOY_PATH is not set' : false,
}, async (t) => {
  const urls = ['http://127.0.0.1:1', 'http://[::1]:1/x', 'http://a.example', 'https://a.example']
  const { resources } = render(urls.map((backendUrl, i) => ({ cluster: `m${i}`, backendUrl })))
  const secrets = [
    {
      name: 'authorities',
      validation_context: { trusted_ca: { inline_string: rootCertificates[0] } },
    },
  ]
  const clusters = resources.map(({ ['@type' as never]: _, ...rest }) => rest)
  const file = join(temporaryFolder(t), 'envoy.json')
  await writeFile(file, JSON.stringify({ static_resources: { secrets, clusters } }))
  await t.resolves(promisify(execFile)(envoy ?? 'envoy', ['--mode', 'validate', '-c', file]))
})
