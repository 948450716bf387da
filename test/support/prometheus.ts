import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePorts } from './free-ports.ts'
import { poll } from './poll.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** Why tests that need Prometheus are skipped; false if it is available. */
export const skipPrometheus =
  spawnSync('prometheus', ['--version']).error !== undefined &&
  'prometheus is not on PATH (Debian: prometheus)'

/** A value and its labels, as in the result of a query. */
export interface QueryResult {
  readonly metric: Readonly<Record<string, string>>
  readonly value: readonly [time: number, value: string]
}

export interface Prometheus {
  /** An instant query. Throws if Prometheus refuses it. */
  query(expression: string): Promise<readonly QueryResult[]>
  /** The names of the firing alerts. */
  firing(): Promise<readonly string[]>
}

/** Starts a Prometheus that scrapes these targets every second and has these rules. */
export async function startPrometheus(
  t: Test,
  targets: Readonly<Record<string, readonly string[]>>,
  rules?: string,
): Promise<Prometheus> {
  const folder = temporaryFolder(t)
  const [port = 0] = await freePorts(1)
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    ...(rules !== undefined && { rule_files: [rules] }),
    scrape_configs: Object.entries(targets).map(([job, addresses]) => ({
      job_name: job,
      ...(job === 'envoy' && { metrics_path: '/stats/prometheus' }),
      static_configs: [{ targets: addresses }],
    })),
  }
  writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config))
  const child = spawn(
    'prometheus',
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: 'ignore' },
  )
  t.teardown(async () => {
    const ended = once(child, 'exit')
    if (child.kill('SIGTERM')) await ended
  })
  const url = `http://127.0.0.1:${port}`
  const ask = async (path: string) => {
    const answer = await fetch(url + path)
    const body = (await answer.json()) as { status: string; error?: string; data: unknown }
    if (body.status !== 'success') throw new Error(body.error)
    return body.data
  }
  await poll(
    () =>
      fetch(`${url}/-/ready`).then(
        ({ ok }) => ok,
        () => false,
      ),
    'Prometheus is ready',
    30_000,
  )
  return {
    async query(expression) {
      const data = await ask(`/api/v1/query?query=${encodeURIComponent(expression)}`)
      return (data as { result: readonly QueryResult[] }).result
    },
    async firing() {
      const { alerts } = (await ask('/api/v1/alerts')) as {
        alerts: readonly { state: string; labels: { alertname: string } }[]
      }
      return alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname)
    },
  }
}
