import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { envoyPath } from './envoy-binary.ts'
import { poll } from './poll.ts'
import { temporaryFolder } from './temporary-folder.ts'

const lua = 'type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua'
const manager =
  'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager'

/**
 * Calls a function of the gateway's scripts in an Envoy of its own, in which nothing else runs. `parts`: files of
 * envoy/lua, with replacements in them. `code`: the body of a function of `input`, the text of a call, that returns a
 * text.
 */
export async function startLoneScript(
  t: Test,
  parts: readonly string[],
  code: string,
  replace: (script: string) => string = (same) => same,
): Promise<(input: string) => Promise<string>> {
  const folder = temporaryFolder(t)
  const texts = parts.map((part) =>
    readFileSync(new URL(`../../envoy/lua/${part}.lua`, import.meta.url), 'utf8'),
  )
  const script = [
    ...texts.map((text) => `do\n${replace(text)}\nend`),
    `local function answer(input)\n${code}\nend`,
    'function envoy_on_request(handle)',
    '  local body = handle:body()',
    '  local fine, text = pcall(answer, body and body:getBytes(0, body:length()) or "")',
    '  handle:respond({ [":status"] = fine and "200" or "500" }, tostring(text))',
    'end',
  ].join('\n')
  const connections = {
    '@type': manager,
    stat_prefix: 'lone',
    route_config: {
      virtual_hosts: [
        {
          ...{ name: 'all', domains: ['*'] },
          routes: [{ match: { prefix: '/' }, direct_response: { status: 404 } }],
        },
      ],
    },
    http_filters: [
      {
        name: 'script',
        typed_config: { '@type': lua, default_source_code: { inline_string: script } },
      },
      {
        name: 'router',
        typed_config: {
          '@type': 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router',
        },
      },
    ],
  }
  const [anyPort, file] = [
    { socket_address: { address: '127.0.0.1', port_value: 0 } },
    join(folder, 'admin'),
  ]
  const config = {
    admin: { address: anyPort },
    static_resources: {
      listeners: [
        {
          ...{ name: 'lone', address: anyPort },
          filter_chains: [{ filters: [{ name: 'http', typed_config: connections }] }],
        },
      ],
    },
  }
  const path = join(folder, 'envoy.json')
  writeFileSync(path, JSON.stringify(config))
  const args = ['-c', path, '--concurrency', '1', '--disable-hot-restart', '--log-level', 'error']
  const child = spawn(envoyPath() ?? 'envoy', [...args, '--admin-address-path', file], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const ended = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  await poll(() => existsSync(file) && readFileSync(file, 'utf8') !== '', 'Envoy has started')
  const listeners = `http://${readFileSync(file, 'utf8').trim()}/listeners?format=json`
  let port = 0
  await poll(async () => {
    const text = await (await fetch(listeners)).text()
    port = Number(/"port_value": (\d+)/.exec(text)?.[1] ?? 0)
    return port > 0
  }, 'Envoy listens')
  return async (input) => {
    const answer = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: input })
    const text = await answer.text()
    if (answer.status !== 200) throw new Error(text)
    return text
  }
}
