/** `npm run monitoring`: rules.yaml → prometheus-rule.yaml, the same for the Prometheus operator. */

import { readFileSync, writeFileSync } from 'node:fs'

const place = new URL('./', import.meta.url)

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

if (import.meta.main) {
  const rules = readFileSync(new URL('rules.yaml', place), 'utf8')
  writeFileSync(new URL('prometheus-rule.yaml', place), toPrometheusRule(rules))
}
