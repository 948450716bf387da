/**
 * What the chart has beside the overlay: values for pods and objects, and objects that only some clusters
 * have a use for.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../src/runtime/package-root.ts'
import { gatewayPort } from './chart-values.ts'

export interface Extra {
  readonly value: unknown
  readonly meaning: string
}

const list: readonly unknown[] = []
const map = {}

/** Where the runbook is by default: an address to replace. */
export const runbookUrl = 'https://tollgate.example/docs/runbook.md'

/** By their names in values.yaml, with dots. */
export const extras: Readonly<Record<string, Extra>> = {
  imagePullSecrets: { value: list, meaning: 'of every pod, such as [{ name: registry }]' },
  labels: { value: map, meaning: 'of every object, in addition to its own' },
  annotations: { value: map, meaning: 'of every object' },
  podLabels: { value: map, meaning: 'of every pod, in addition to its own' },
  podAnnotations: { value: map, meaning: 'of every pod' },
  nodeSelector: { value: map, meaning: 'of every pod' },
  tolerations: { value: list, meaning: 'of every pod' },
  affinity: { value: map, meaning: 'of every pod' },
  extraEnv: {
    value: list,
    meaning:
      'of the service and the controller: variables that settings cannot express, such as a valueFrom',
  },
  extraVolumes: { value: list, meaning: 'of the pods of gateway and controller' },
  extraVolumeMounts: { value: list, meaning: 'of every container of these pods' },
  'gateway.topologySpreadConstraints': {
    value: list,
    meaning: 'instead of spreading across zones and nodes where there are several',
  },
  'controller.topologySpreadConstraints': { value: list, meaning: 'of its pods' },
  'ingress.enabled': { value: false, meaning: 'create an Ingress to the gateway' },
  'ingress.className': { value: '', meaning: 'of the controller; empty: the default one' },
  'ingress.hosts': { value: list, meaning: 'the public names, such as [models.example]' },
  'ingress.tls': { value: list, meaning: 'as in an Ingress' },
  'ingress.annotations': {
    value: map,
    meaning: 'of the Ingress; its controller must not buffer responses nor end long ones',
  },
  'httpRoute.enabled': {
    value: false,
    meaning: 'create an HTTPRoute from a Gateway of the cluster to the gateway',
  },
  'httpRoute.parentRefs': { value: list, meaning: 'like [{ name: front, namespace: public }]' },
  'httpRoute.hostnames': { value: list, meaning: 'the public names' },
  'monitoring.podMonitor.enabled': {
    value: false,
    meaning: 'let the Prometheus operator scrape the pods',
  },
  'monitoring.rules.enabled': {
    value: false,
    meaning: 'alerts and sums, for the same; in one release of a cluster, for they cover all',
  },
  'monitoring.rules.runbookUrl': {
    value: runbookUrl,
    meaning: 'where your people find docs/runbook.md: alerts link to its sections',
  },
  'monitoring.dashboards.enabled': {
    value: false,
    meaning: 'a ConfigMap for each dashboard, which the sidecar of Grafana finds by its label',
  },
  'monitoring.dashboards.labels': { value: { grafana_dashboard: '1' }, meaning: 'of these' },
}

const head = (name: string, more = '') => `metadata:
  name: ${name}
  namespace: {{ .Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ .Release.Name }}
{{- range $name, $value := .Values.labels }}
    {{ $name }}: {{ toJson $value }}
{{- end }}${more}`

const annotations = `
{{- with .Values.annotations }}
  annotations: {{ toJson . }}
{{- end }}`

const ingress = `{{- if .Values.ingress.enabled }}
apiVersion: networking.k8s.io/v1
kind: Ingress
${head('{{ .Release.Name }}-gateway')}
{{- with merge (dict) (.Values.ingress.annotations | default dict) (.Values.annotations | default dict) }}
  annotations: {{ toJson . }}
{{- end }}
spec:
{{- with .Values.ingress.className }}
  ingressClassName: {{ toJson . }}
{{- end }}
{{- with .Values.ingress.tls }}
  tls: {{ toJson . }}
{{- end }}
  rules:
{{- range .Values.ingress.hosts | default nil | required "ingress.hosts: name at least one" }}
    - host: {{ toJson . }}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: {{ $.Release.Name }}-gateway
                port:
                  name: http
{{- end }}
{{- end }}
`

const httpRoute = `{{- if .Values.httpRoute.enabled }}
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
${head('{{ .Release.Name }}-gateway', annotations)}
spec:
  parentRefs: {{ .Values.httpRoute.parentRefs | default nil | required "httpRoute.parentRefs: name a Gateway" | toJson }}
{{- with .Values.httpRoute.hostnames }}
  hostnames: {{ toJson . }}
{{- end }}
  rules:
    - backendRefs:
        - name: {{ .Release.Name }}-gateway
          port: {{ ${gatewayPort} }}
      # Responses of models take as long as they take: the gateway's own time-outs hold.
      timeouts:
        request: 0s
{{- end }}
`

const podMonitor = `{{- if .Values.monitoring.podMonitor.enabled }}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
${head('{{ .Release.Name }}', annotations)}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .Release.Name }}
    matchExpressions:
      - key: app.kubernetes.io/component
        operator: In
        values: [gateway, controller]
  # The rules tell installations in one namespace apart by it.
  podTargetLabels: [app.kubernetes.io/name]
  podMetricsEndpoints:
    - port: metrics
      # The rules know the processes by this name.
      relabelings:
        - targetLabel: job
          replacement: tollgate
{{- end }}
`

const rules = `{{- if .Values.monitoring.rules.enabled }}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
${head('{{ .Release.Name }}', annotations)}
spec:
{{ .Files.Get "files/rules.yaml" | replace "${runbookUrl}" .Values.monitoring.rules.runbookUrl | indent 2 }}
{{- end }}
`

const dashboards = `{{- if .Values.monitoring.dashboards.enabled }}
{{- range $path, $_ := .Files.Glob "files/*.dashboard.json" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $.Release.Name }}-{{ base $path | replace ".dashboard.json" "" }}-dashboard
  namespace: {{ $.Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ $.Release.Name }}
{{- range $name, $value := merge (dict) ($.Values.monitoring.dashboards.labels | default dict) ($.Values.labels | default dict) }}
    {{ $name }}: {{ toJson $value }}
{{- end }}
{{- with $.Values.annotations }}
  annotations: {{ toJson . }}
{{- end }}
data:
  {{ base $path }}: {{ $.Files.Get $path | toJson }}
{{- end }}
{{- end }}
`

/** Templates and the files that they read, by their paths in the chart. */
export function extraFiles(note: string): ReadonlyMap<string, string> {
  const folder = join(packageRoot, 'monitoring')
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const shown = readdirSync(folder).filter((name) => name.endsWith('.dashboard.json'))
  const alerts = read('rules.yaml')
  return new Map([
    ['templates/ingress.yaml', note + ingress],
    ['templates/http-route.yaml', note + httpRoute],
    ['templates/pod-monitor.yaml', note + podMonitor],
    ['templates/prometheus-rule.yaml', note + rules],
    ['templates/dashboards.yaml', note + dashboards],
    ['files/rules.yaml', alerts.slice(alerts.indexOf('groups:'))],
    ...shown.map((name) => [`files/${name}`, read(name)] as const),
  ])
}
