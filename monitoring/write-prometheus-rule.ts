/**
 * `npm run monitoring`: rules.yaml → prometheus-rule.yaml, the same for the Prometheus operator. RUNBOOK_URL is
 * written into both as the address of docs/runbook.md.
 */

import { readFileSync, writeFileSync } from 'node:fs'

const place = new URL('.//', import.meta.url)

/** The PrometheusRule of these rules, as text. */
export function toPrometheusRule(rules: string): string {
  const groups = rules.slice(rules.indexOf('groups:'))
  const spec = groups.replace(/^(?=.)/gm, '  ')
  return [
    '# Written by `npm run monitoring` from rules.yaml.',
    'apiVersion: monitoring.coreos.com/v1',
    'kind: PrometheusRule',
    'metadata:',
    '  name: tollgate',
    '  labels: { app.kubernetes.io/name: tollgate }',
    'spec:',
    spec,
  ].join('\n')
}

/** The rules with another address of the runbook. */
export function withRunbook(rules: string, url: string): string {
  return rules.replaceAll(/(?<=runbook_url: )[^#\s]+(?=#)/g, url)
}

if (import.meta.main) {
  const path = new URL('rules.yaml', place)
  const kept = readFileSync(path, 'utf8')
  const { RUNBOOK_URL: url } = process.env
  const rules = url ? withRunbook(kept, url) : kept
  if (rules !== kept) writeFileSync(path, rules)
  writeFileSync(new URL('prometheus-rule.yaml', place), toPrometheusRule(rules))
}
