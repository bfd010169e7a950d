// Package test renders the chart with Helm's own code and checks the objects. It is a module of its own, so that Helm
// and Kubernetes are not requirements of pawl.
package test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	repository = "../../.."
	chartDir   = "../pawl"
)

// pawl builds the binary without `pawl dev`, as in the image, and returns its path.
var pawl = sync.OnceValues(func() (string, error) {
	path := filepath.Join(tools, "pawl")
	build := exec.Command("go", "build", "-tags", "nodev", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/pawl")
	build.Dir, build.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build pawl: %w: %s", err, out)
	}
	return path, nil
})

// tools is a directory that exists during the tests.
var tools string

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // Helm logs each link in the chart
	var err error
	if tools, err = os.MkdirTemp("", "pawl-helm"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(tools)
	os.Exit(code)
}

// objects are the objects of a rendered chart.
type objects struct {
	configMaps  []core.ConfigMap
	services    []core.Service
	deployments []apps.Deployment
	jobs        []batch.Job
	budgets     []policy.PodDisruptionBudget
	scalers     []autoscaling.HorizontalPodAutoscaler
	policies    []networking.NetworkPolicy
	ingresses   []networking.Ingress
	monitors    []monitoring.ServiceMonitor
	rules       []monitoring.PrometheusRule
	notes       string
	// names are "Kind/name" of all objects, sorted.
	names []string
}

// variations are the values that the tests render. Every variation must fulfil every property.
var variations = map[string]string{
	"default": `temporal: {address: "temporal-frontend.temporal.svc:7233"}`,
	"complete": `
image: {digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", pullSecrets: [registry]}
temporal: {address: "eu-central-1.aws.api.temporal.io:7234", namespace: pawl.a1b2c, apiKey: {secret: temporal}}
console: {enabled: true, replicas: 2}
config:
  console:
    oidc: {issuer: "https://login.example.com", client_id: pawl}
    roles: {oncall: operator}
  sinks:
    finance: {url: "https://finance.example.com/api", token: "env:FINANCE_TOKEN"}
secrets:
  env:
    - {name: STRIPE_WEBHOOK_SECRET, secret: pawl, key: stripe}
    - {name: FINANCE_TOKEN, secret: pawl, key: finance}
expose:
  trustedProxies: [10.0.0.0/16]
  webhooks: {enabled: true, className: nginx, annotations: {cert-manager.io/cluster-issuer: letsencrypt}}
  console: {enabled: true, className: nginx}
networkPolicy:
  databasePort: 6432
  ports: {worker: [443, 465]}
  proxy: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}]
  metrics: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
monitoring: {serviceMonitor: {enabled: true, labels: {release: prometheus}}, prometheusRule: {enabled: true}}
ingress: {podAnnotations: {example.com/team: billing}, nodeSelector: {kubernetes.io/arch: arm64}}
worker: {env: [{name: GOMEMLIMIT, value: 400MiB}], tolerations: [{key: spot, operator: Exists}]}
`,
	"certificates": `
temporal:
  address: pawl.a1b2c.tmprl.cloud:7233
  namespace: pawl.a1b2c
  tls: {caSecret: temporal-ca, clientSecret: temporal-client, serverName: pawl.a1b2c.tmprl.cloud}
config:
  sources: {stripe: {secrets: [{label: first, value: "file:/run/secrets/pawl/stripe"}]}}
secrets:
  env: []
  files: [{name: stripe, secret: pawl, key: stripe-webhook-secret}]
ingress: {autoscaling: {enabled: false}, replicas: 3, shutdownDelaySeconds: 40, service: {type: LoadBalancer}}
`,
	"small": `
temporal: {address: "temporal:7233"}
migrate: {enabled: false}
networkPolicy: {enabled: false}
podDisruptionBudget: {enabled: false}
ingress: {autoscaling: {enabled: false}, replicas: 1}
worker: {replicas: 1}
`,
}

// each runs a test for each variation.
func each(t *testing.T, test func(t *testing.T, o objects)) {
	for name, values := range variations {
		t.Run(name, func(t *testing.T) {
			o, err := render(values)
			if err != nil {
				t.Fatal(err)
			}
			test(t, o)
		})
	}
}

// render renders the chart as release "billing" in namespace "pawl". Values that violate the schema return an error,
// and so does an object with a field that Kubernetes does not have.
func render(values string) (o objects, err error) {
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		return o, err
	}
	var given map[string]any
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		return o, err
	}
	all, err := util.ToRenderValues(chart, given, common.ReleaseOptions{
		Name: "billing", Namespace: "pawl", Revision: 1, IsInstall: true,
	}, common.DefaultCapabilities)
	if err != nil {
		return o, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return o, err
	}
	for path, content := range files {
		if filepath.Ext(path) == ".txt" {
			o.notes = content
		}
		if filepath.Ext(path) != ".yaml" {
			continue
		}
		for _, document := range strings.Split("\n"+content, "\n---") {
			if err := o.add([]byte(document)); err != nil {
				return o, fmt.Errorf("%s: %w\n%s", path, err, document)
			}
		}
	}
	slices.Sort(o.names)
	return o, nil
}

// add decodes a document by its kind.
func (o *objects) add(document []byte) error {
	var is struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
	}
	if err := yaml.Unmarshal(document, &is); err != nil {
		return err
	}
	if is.Kind == "" {
		if content := bytes.TrimSpace(document); len(content) > 0 && !bytes.HasPrefix(content, []byte("#")) {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	o.names = append(o.names, is.Kind+"/"+is.Name)
	switch is.APIVersion + " " + is.Kind {
	case "v1 ConfigMap":
		return decode(document, &o.configMaps)
	case "v1 Service":
		return decode(document, &o.services)
	case "apps/v1 Deployment":
		return decode(document, &o.deployments)
	case "batch/v1 Job":
		return decode(document, &o.jobs)
	case "policy/v1 PodDisruptionBudget":
		return decode(document, &o.budgets)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return decode(document, &o.scalers)
	case "networking.k8s.io/v1 NetworkPolicy":
		return decode(document, &o.policies)
	case "networking.k8s.io/v1 Ingress":
		return decode(document, &o.ingresses)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return decode(document, &o.monitors)
	case "monitoring.coreos.com/v1 PrometheusRule":
		return decode(document, &o.rules)
	}
	return fmt.Errorf("%s %s is not a kind of the chart", is.APIVersion, is.Kind)
}

// decode appends a document, and rejects unknown and repeated fields.
func decode[T any](document []byte, to *[]T) error {
	var v T
	if err := yaml.UnmarshalStrict(document, &v); err != nil {
		return err
	}
	*to = append(*to, v)
	return nil
}

// pod is a pod template with the name of its process: ingress, worker, console or migrate.
type pod struct {
	process string
	labels  map[string]string
	core.PodSpec
}

func (o objects) pods() (all []pod) {
	for _, d := range o.deployments {
		all = append(all, pod{d.Labels["app.kubernetes.io/component"], d.Spec.Template.Labels, d.Spec.Template.Spec})
	}
	for _, j := range o.jobs {
		all = append(all, pod{j.Labels["app.kubernetes.io/component"], j.Spec.Template.Labels, j.Spec.Template.Spec})
	}
	return all
}

// env returns the variable of a container.
func (p pod) env(name string) core.EnvVar {
	for _, v := range p.Containers[0].Env {
		if v.Name == name {
			return v
		}
	}
	return core.EnvVar{}
}

// pawlYAML returns the configuration that the pod mounts.
func (o objects) pawlYAML(t *testing.T, p pod) string {
	t.Helper()
	for _, v := range p.Volumes {
		for _, c := range o.configMaps {
			if v.ConfigMap != nil && v.ConfigMap.Name == c.Name {
				return c.Data["pawl.yaml"]
			}
		}
	}
	t.Fatalf("%s mounts no ConfigMap of the chart", p.process)
	return ""
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}
