{{- define "pawl.name" -}}
{{- if contains "pawl" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-pawl" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Labels that select the pods of a process. Call with (list . "worker"). */}}
{{- define "pawl.selector" -}}
app.kubernetes.io/name: pawl
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "pawl.labels" -}}
{{ include "pawl.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "pawl.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{/* pawl.yaml: the values in config, with the settings that depend on the chart. */}}
{{- define "pawl.config" -}}
{{- $set := dict
  "database" "env:DATABASE_URL"
  "ingress" (dict "listen" "0.0.0.0:8080" "shutdown_delay" (printf "%ds" (int .Values.ingress.shutdownDelaySeconds)))
  "ops" (dict "ingress" "0.0.0.0:8082" "worker" "0.0.0.0:8084" "console" "0.0.0.0:8085")
  "console" (dict "listen" "0.0.0.0:8081") }}
{{- with .Values.expose }}
{{- if .webhooks.enabled }}{{ $_ := set $set.ingress "public_url" (printf "https://%s" .webhooks.host) }}{{ end }}
{{- if .console.enabled }}{{ $_ := set $set.console "url" (printf "https://%s" .console.host) }}{{ end }}
{{- if .trustedProxies }}
{{- $_ := set $set.ingress "limits" (dict "trusted_proxies" .trustedProxies) }}
{{- $_ := set $set.console "trusted_proxies" .trustedProxies }}
{{- end }}
{{- end }}
{{- mergeOverwrite (deepCopy .Values.config) $set | toYaml }}
{{- end }}

{{/* The connection to Temporal, in the variables of Temporal's SDK. */}}
{{- define "pawl.temporal.env" -}}
{{- with .Values.temporal }}
- name: TEMPORAL_ADDRESS
  value: {{ required "temporal.address is missing: write the address of your Temporal server, such as temporal-frontend.temporal.svc:7233" .address | quote }}
- name: TEMPORAL_NAMESPACE
  value: {{ .namespace | quote }}
{{- if or .tls.enabled .tls.serverName .tls.caSecret .tls.clientSecret .apiKey.secret }}
- name: TEMPORAL_TLS
  value: "true"
{{- end }}
{{- with .tls.serverName }}
- name: TEMPORAL_TLS_SERVER_NAME
  value: {{ . | quote }}
{{- end }}
{{- if .tls.caSecret }}
- name: TEMPORAL_TLS_SERVER_CA_CERT_PATH
  value: /run/secrets/temporal-ca/ca.crt
{{- end }}
{{- if .tls.clientSecret }}
- name: TEMPORAL_TLS_CLIENT_CERT_PATH
  value: /run/secrets/temporal-client/tls.crt
- name: TEMPORAL_TLS_CLIENT_KEY_PATH
  value: /run/secrets/temporal-client/tls.key
{{- end }}
{{- if .apiKey.secret }}
- name: TEMPORAL_API_KEY
  valueFrom: {secretKeyRef: {name: {{ .apiKey.secret | quote }}, key: {{ .apiKey.key | quote }}}}
{{- end }}
{{- end }}
{{- end }}

{{/* The variables of every process. Call with (list . "worker"); the owner's role is "owner". */}}
{{- define "pawl.env" -}}
{{- $ := index . 0 }}
- name: DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ $.Values.database.secret | quote }}, key: {{ get $.Values.database.keys (index . 1) | quote }}}}
{{- range $.Values.secrets.env }}
- name: {{ .name | quote }}
  valueFrom: {secretKeyRef: {name: {{ .secret | quote }}, key: {{ .key | quote }}}}
{{- end }}
{{- end }}

{{/* Call with (list . "the name of the ConfigMap" "true if the process connects to Temporal"). */}}
{{- define "pawl.volumes" -}}
{{- $ := index . 0 }}
- name: config
  configMap: {name: {{ index . 1 }}}
{{- if $.Values.secrets.files }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range $.Values.secrets.files }}
      - secret: {name: {{ .secret | quote }}, items: [{key: {{ .key | quote }}, path: {{ .name | quote }}}]}
      {{- end }}
{{- end }}
{{- if index . 2 }}
{{- with $.Values.temporal.tls.caSecret }}
- name: temporal-ca
  secret: {secretName: {{ . | quote }}, defaultMode: 0440, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- with $.Values.temporal.tls.clientSecret }}
- name: temporal-client
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end }}

{{- define "pawl.mounts" -}}
{{- $ := index . 0 }}
- {name: config, mountPath: /etc/pawl, readOnly: true}
{{- if $.Values.secrets.files }}
- {name: secrets, mountPath: /run/secrets/pawl, readOnly: true}
{{- end }}
{{- if index . 1 }}
{{- if $.Values.temporal.tls.caSecret }}
- {name: temporal-ca, mountPath: /run/secrets/temporal-ca, readOnly: true}
{{- end }}
{{- if $.Values.temporal.tls.clientSecret }}
- {name: temporal-client, mountPath: /run/secrets/temporal-client, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- define "pawl.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "pawl.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/*
The Deployment of a process. Call with a dict: root, component, port and portName of its own listener (none for the
worker), ops (the port of health and metrics), grace (seconds), and replicas (none with autoscaling).
*/}}
{{- define "pawl.deployment" -}}
{{- $ := .root }}
{{- $values := get $.Values .component }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "pawl.name" $ }}-{{ .component }}
  labels: {{- include "pawl.labels" (list $ .component) | nindent 4 }}
spec:
  {{- with .replicas }}
  replicas: {{ . }}
  {{- end }}
  revisionHistoryLimit: 5
  # A new pod must be ready before an old pod stops.
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  selector:
    matchLabels: {{- include "pawl.selector" (list $ .component) | nindent 6 }}
  template:
    metadata:
      labels: {{- include "pawl.labels" (list $ .component) | nindent 8 }}
      annotations:
        # A changed configuration starts new pods, because it can contain settings that need a restart.
        checksum/config: {{ include "pawl.config" $ | sha256sum }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "pawl.podSecurity" $ | nindent 6 }}
      terminationGracePeriodSeconds: {{ .grace }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "pawl.selector" (list $ .component) | nindent 14 }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "pawl.image" $ | quote }}
          imagePullPolicy: {{ $.Values.image.pullPolicy }}
          args: [{{ .component }}, --config, /etc/pawl/pawl.yaml, --log-format, json]
          securityContext: {{- include "pawl.containerSecurity" $ | nindent 12 }}
          env:
            {{- include "pawl.env" (list $ .component) | trim | nindent 12 }}
            {{- include "pawl.temporal.env" $ | trim | nindent 12 }}
            {{- with $values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            {{- if .port }}
            - {name: {{ .portName }}, containerPort: {{ .port }}}
            {{- end }}
            - {name: ops, containerPort: {{ .ops }}}
          # A process without a database is not ready, but restarting it would not help: only /livez restarts it.
          startupProbe: {httpGet: {path: /livez, port: ops}, periodSeconds: 2, failureThreshold: 30}
          livenessProbe: {httpGet: {path: /livez, port: ops}, periodSeconds: 10, timeoutSeconds: 3, failureThreshold: 6}
          readinessProbe: {httpGet: {path: /readyz, port: ops}, periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 2}
          resources: {{- toYaml $values.resources | nindent 12 }}
          volumeMounts: {{- include "pawl.mounts" (list $ true) | nindent 12 }}
      volumes: {{- include "pawl.volumes" (list $ (include "pawl.name" $) true) | nindent 8 }}
{{- end }}

{{/* The Service of a process. Call with a dict: root, component, port and portName (none for the worker), ops. */}}
{{- define "pawl.service" -}}
{{- $ := .root }}
{{- $service := (get $.Values .component).service | default dict }}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "pawl.name" $ }}-{{ .component }}
  labels: {{- include "pawl.labels" (list $ .component) | nindent 4 }}
  {{- with $service.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ $service.type | default "ClusterIP" }}
  selector: {{- include "pawl.selector" (list $ .component) | nindent 4 }}
  ports:
    - {name: {{ .portName }}, port: {{ $service.port }}, targetPort: {{ .portName }}}
{{- end }}

{{/*
A Service for the ops listener of each process, without an address of its own, for Prometheus. It is separate, so that a
load balancer in front of the other Service never publishes health and metrics.
*/}}
{{- define "pawl.opsService" -}}
{{- $ := .root }}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "pawl.name" $ }}-{{ .component }}-ops
  labels:
    {{- include "pawl.labels" (list $ .component) | nindent 4 }}
    pawl.dev/ops: "true"
spec:
  type: ClusterIP
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- include "pawl.selector" (list $ .component) | nindent 4 }}
  ports:
    - {name: ops, port: {{ .ops }}, targetPort: ops}
{{- end }}

{{- define "pawl.disruptionBudget" -}}
{{- $ := index . 0 }}
{{- if $.Values.podDisruptionBudget.enabled }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "pawl.name" $ }}-{{ index . 1 }}
  labels: {{- include "pawl.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  # A pod that is not ready does not block the maintenance of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "pawl.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* DNS, which every process needs, and the database. */}}
{{- define "pawl.egress.base" -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
- ports: [{port: {{ .Values.networkPolicy.databasePort }}, protocol: TCP}]
{{- end }}

{{/* Call with a dict: root, component, port (none for the worker), ops. */}}
{{- define "pawl.networkPolicy" -}}
{{- $ := .root }}
{{- $policy := $.Values.networkPolicy }}
{{- if $policy.enabled }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "pawl.name" $ }}-{{ .component }}
  labels: {{- include "pawl.labels" (list $ .component) | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "pawl.selector" (list $ .component) | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- if or .port $policy.metrics }}
  ingress:
    {{- if .port }}
    - ports: [{port: {{ .port }}, protocol: TCP}]
      {{- with $policy.proxy }}
      from: {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- if $policy.metrics }}
    - ports: [{port: {{ .ops }}, protocol: TCP}]
      from: {{- toYaml $policy.metrics | nindent 8 }}
    {{- end }}
  {{- end }}
  egress:
    {{- include "pawl.egress.base" $ | nindent 4 }}
    - ports: [{port: {{ include "pawl.temporal.port" $ }}, protocol: TCP}]
    {{- with get $policy.ports .component }}
    - ports:
        {{- range . }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
    {{- end }}
{{- end }}
{{- end }}

{{- define "pawl.temporal.port" -}}
{{- regexFind "[0-9]+$" .Values.temporal.address | default "7233" -}}
{{- end }}
