package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

// Helm's own linter reports no error and no warning.
func TestChart_Lint(t *testing.T) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(variations["complete"]), &values); err != nil {
		t.Fatal(err)
	}
	for _, m := range lint.RunAll(chartDir, values, "pawl").Messages {
		if m.Severity >= support.WarningSev {
			t.Error(m)
		}
	}
}

func TestChart_Objects(t *testing.T) {
	want := map[string]string{
		"default": "ConfigMap/billing-pawl ConfigMap/billing-pawl-migrate Deployment/billing-pawl-ingress Deployment/billing-pawl-worker " +
			"HorizontalPodAutoscaler/billing-pawl-ingress Job/billing-pawl-migrate NetworkPolicy/billing-pawl-ingress " +
			"NetworkPolicy/billing-pawl-migrate NetworkPolicy/billing-pawl-worker PodDisruptionBudget/billing-pawl-ingress " +
			"PodDisruptionBudget/billing-pawl-worker Service/billing-pawl-ingress Service/billing-pawl-ingress-ops Service/billing-pawl-worker-ops",
		"complete": "ConfigMap/billing-pawl ConfigMap/billing-pawl-migrate Deployment/billing-pawl-console Deployment/billing-pawl-ingress " +
			"Deployment/billing-pawl-worker HorizontalPodAutoscaler/billing-pawl-ingress Ingress/billing-pawl-console Ingress/billing-pawl-webhooks " +
			"Job/billing-pawl-migrate NetworkPolicy/billing-pawl-console NetworkPolicy/billing-pawl-ingress NetworkPolicy/billing-pawl-migrate " +
			"NetworkPolicy/billing-pawl-worker PodDisruptionBudget/billing-pawl-console PodDisruptionBudget/billing-pawl-ingress " +
			"PodDisruptionBudget/billing-pawl-worker PrometheusRule/billing-pawl Service/billing-pawl-console Service/billing-pawl-console-ops " +
			"Service/billing-pawl-ingress Service/billing-pawl-ingress-ops Service/billing-pawl-worker-ops ServiceMonitor/billing-pawl",
		"certificates": "ConfigMap/billing-pawl ConfigMap/billing-pawl-migrate Deployment/billing-pawl-ingress Deployment/billing-pawl-worker " +
			"Job/billing-pawl-migrate NetworkPolicy/billing-pawl-ingress NetworkPolicy/billing-pawl-migrate NetworkPolicy/billing-pawl-worker " +
			"PodDisruptionBudget/billing-pawl-ingress PodDisruptionBudget/billing-pawl-worker Service/billing-pawl-ingress " +
			"Service/billing-pawl-ingress-ops Service/billing-pawl-worker-ops",
		"small": "ConfigMap/billing-pawl Deployment/billing-pawl-ingress Deployment/billing-pawl-worker Service/billing-pawl-ingress " +
			"Service/billing-pawl-ingress-ops Service/billing-pawl-worker-ops",
	}
	for name, values := range variations {
		o, err := render(values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := strings.Join(o.names, " "); got != want[name] {
			t.Errorf("%s has the objects\n%s\nwant\n%s", name, got, want[name])
		}
	}
}

// The error about a wrong value names the value.
func TestChart_WrongValues_Refused(t *testing.T) {
	const address = "temporal: {address: \"temporal:7233\"}\n"
	for values, want := range map[string]string{
		"{}":                                     "temporal.address is missing",
		"temporal: {address: temporal}":          "/temporal/address",
		address + "replicas: 3":                  "replicas",
		address + "worker: {replicas: 0}":        "/worker/replicas",
		address + "image: {digest: latest}":      "/image/digest",
		address + "console: {enabled: true}":     "console.enabled needs a way to sign in",
		address + "config: {sources: null}":      "sources",
		address + "networkPolicy: {proxy: [{}]}": "/networkPolicy/proxy/0",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want an error with %q", values, err, want)
		}
	}
}

// The configuration passes `pawl config check` without a warning, and pawl accepts the arguments of every container.
func TestChart_PawlAcceptsConfigurationAndArguments(t *testing.T) {
	binary, err := pawl()
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, o objects) {
		for _, p := range o.pods() {
			dir := t.TempDir()
			file := filepath.Join(dir, "pawl.yaml")
			config := strings.ReplaceAll(o.pawlYAML(t, p), "file:/run/secrets/pawl/", "file:"+dir+"/")
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			env := []string{}
			for _, v := range p.Containers[0].Env {
				value := v.Value
				switch {
				case v.Name == "DATABASE_URL":
					value = "postgres://pawl:x@db.example.com/pawl?sslmode=verify-full"
				case v.ValueFrom != nil:
					value = "whsec_3f9d1c7a5b2e8f6041c9"
				case strings.HasSuffix(v.Name, "_PATH"):
					continue // the migration does not connect to Temporal, and the check does not read these files
				}
				env = append(env, v.Name+"="+value)
			}
			for _, v := range p.Volumes {
				if v.Name != "secrets" {
					continue
				}
				for _, s := range v.Projected.Sources {
					for _, item := range s.Secret.Items {
						if err := os.WriteFile(filepath.Join(dir, item.Path), []byte("whsec_3f9d1c7a5b2e8f6041c9"), 0o600); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			run := func(args ...string) string {
				cmd := exec.CommandContext(t.Context(), binary, args...)
				cmd.Env = env
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s: pawl %v: %v\n%s\n%s", p.process, args, err, out, config)
				}
				return string(out)
			}
			if out := run("config", "check", "--config", file); !strings.HasSuffix(out, "is fine\n") {
				t.Errorf("%s: %s", p.process, out)
			}
			run(append(slices.Clone(p.Containers[0].Args), "--help")...)
		}
	})
}

// Every pod runs as the user of the image without privileges, a writable file system or an account of Kubernetes.
func TestChart_Pods_Hardened(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(repository, "deploy", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(string(content))
	each(t, func(t *testing.T, o objects) {
		for _, p := range o.pods() {
			c, s := p.Containers[0], p.SecurityContext
			switch run := c.SecurityContext; {
			case len(p.Containers) != 1 || len(p.InitContainers) != 0:
				t.Errorf("%s has other containers", p.process)
			case run == nil || s == nil:
				t.Errorf("%s has no security context", p.process)
			case fmt.Sprint(*s.RunAsUser) != user[1] || fmt.Sprint(*s.RunAsGroup) != user[2] || !*s.RunAsNonRoot:
				t.Errorf("%s runs as %d:%d, want the image's %v and not root", p.process, *s.RunAsUser, *s.RunAsGroup, user[1:])
			case s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault:
				t.Errorf("%s has the seccomp profile %s", p.process, s.SeccompProfile.Type)
			case *run.AllowPrivilegeEscalation || !*run.ReadOnlyRootFilesystem || run.Privileged != nil && *run.Privileged:
				t.Errorf("%s may gain privileges or write", p.process)
			case !reflect.DeepEqual(run.Capabilities, &core.Capabilities{Drop: []core.Capability{"ALL"}}):
				t.Errorf("%s has capabilities", p.process)
			case *p.AutomountServiceAccountToken || p.HostNetwork || p.HostPID || p.HostIPC:
				t.Errorf("%s has a token or a namespace of its host", p.process)
			case c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || !c.Resources.Limits.Cpu().IsZero():
				t.Errorf("%s: want a limit of memory, a request of CPU, and no limit of CPU; got %+v", p.process, c.Resources)
			}
			for _, v := range p.Volumes {
				if v.ConfigMap == nil && v.Secret == nil && v.Projected == nil {
					t.Errorf("%s mounts %s", p.process, v.Name)
				}
			}
			for _, m := range c.VolumeMounts {
				if !m.ReadOnly {
					t.Errorf("%s can write to %s", p.process, m.MountPath)
				}
			}
		}
	})
}

// Each process has its own database role. Only the migration has the owner's, and only it has no way to Temporal.
func TestChart_Secrets_OnlyTheOwn(t *testing.T) {
	keys := map[string]string{"migrate": "owner-url", "ingress": "ingress-url", "worker": "worker-url", "console": "console-url"}
	each(t, func(t *testing.T, o objects) {
		for _, p := range o.pods() {
			ref := p.env("DATABASE_URL").ValueFrom
			if ref == nil || ref.SecretKeyRef.Name != "pawl-database" || ref.SecretKeyRef.Key != keys[p.process] {
				t.Errorf("%s reads its database URL from %+v, want %s", p.process, ref, keys[p.process])
			}
			if got := p.env("TEMPORAL_ADDRESS").Value != ""; got != (p.process != "migrate") {
				t.Errorf("%s has an address of Temporal: %t", p.process, got)
			}
			for _, v := range p.Containers[0].Env {
				if v.Value != "" && (strings.HasSuffix(v.Name, "_KEY") || strings.HasSuffix(v.Name, "_SECRET") || v.Name == "DATABASE_URL") {
					t.Errorf("%s contains %s in clear text", p.process, v.Name)
				}
			}
		}
	})
}

// Files that the variables of Temporal's SDK name are mounted from the right Secret.
func TestChart_Temporal_Certificates(t *testing.T) {
	o, err := render(variations["certificates"])
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range o.pods() {
		if p.process == "migrate" {
			continue
		}
		for variable, secret := range map[string]string{
			"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "temporal-ca", "TEMPORAL_TLS_CLIENT_CERT_PATH": "temporal-client", "TEMPORAL_TLS_CLIENT_KEY_PATH": "temporal-client",
		} {
			path, found := p.env(variable).Value, false
			for _, m := range p.Containers[0].VolumeMounts {
				for _, v := range p.Volumes {
					found = found || m.Name == v.Name && v.Secret != nil && v.Secret.SecretName == secret && filepath.Dir(path) == m.MountPath
				}
			}
			if !found {
				t.Errorf("%s: %s is %q, and no volume of the Secret %s is mounted there", p.process, variable, path, secret)
			}
		}
		if p.env("TEMPORAL_TLS").Value != "true" || p.env("TEMPORAL_TLS_SERVER_NAME").Value != "pawl.a1b2c.tmprl.cloud" {
			t.Errorf("%s does not use TLS with the server's name", p.process)
		}
	}
	complete, err := render(variations["complete"])
	if err != nil {
		t.Fatal(err)
	}
	if ref := complete.pods()[0].env("TEMPORAL_API_KEY").ValueFrom; ref == nil || ref.SecretKeyRef.Name != "temporal" || ref.SecretKeyRef.Key != "api-key" {
		t.Errorf("the API key is from %+v", ref)
	}
}

// listeners are the addresses in pawl.yaml.
type listeners struct {
	Ingress struct {
		Listen        string `json:"listen"`
		ShutdownDelay string `json:"shutdown_delay"`
		PublicURL     string `json:"public_url"`
	} `json:"ingress"`
	Console struct {
		Listen string `json:"listen"`
		URL    string `json:"url"`
	} `json:"console"`
	Ops map[string]string `json:"ops"`
}

// The ports of containers are the ports in pawl.yaml. The probes use the ops listener, and only /livez restarts a pod.
func TestChart_Probes_ReachTheOpsListener(t *testing.T) {
	each(t, func(t *testing.T, o objects) {
		for _, d := range o.deployments {
			p := pod{process: d.Labels["app.kubernetes.io/component"], PodSpec: d.Spec.Template.Spec}
			var l listeners
			if err := yaml.Unmarshal([]byte(o.pawlYAML(t, p)), &l); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"ops": l.Ops[p.process]}
			switch p.process {
			case "ingress":
				want["webhooks"] = l.Ingress.Listen
			case "console":
				want["console"] = l.Console.Listen
			}
			got := map[string]string{}
			for _, port := range p.Containers[0].Ports {
				got[port.Name] = fmt.Sprintf("0.0.0.0:%d", port.ContainerPort)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s has the ports %v; pawl.yaml has %v", p.process, got, want)
			}
			c := p.Containers[0]
			for path, probe := range map[string]*core.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
				if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != "ops" || probe.TimeoutSeconds < 2 {
					t.Errorf("%s: the probe of %s is %+v; pawl answers within a second", p.process, path, probe)
				}
			}
			if c.StartupProbe == nil || c.StartupProbe.HTTPGet.Path != "/livez" {
				t.Errorf("%s has the startup probe %+v", p.process, c.StartupProbe)
			}
		}
	})
}

// Kubernetes waits until the delay and the requests or effects in progress have ended.
func TestChart_GracePeriod_CoversTheDelayAndTheWork(t *testing.T) {
	work := map[string]time.Duration{"ingress": 10 * time.Second, "worker": 15 * time.Second, "console": 10 * time.Second}
	each(t, func(t *testing.T, o objects) {
		for _, d := range o.deployments {
			process := d.Labels["app.kubernetes.io/component"]
			var l listeners
			if err := yaml.Unmarshal([]byte(o.pawlYAML(t, pod{process: process, PodSpec: d.Spec.Template.Spec})), &l); err != nil {
				t.Fatal(err)
			}
			need := work[process]
			if process == "ingress" {
				delay, err := time.ParseDuration(l.Ingress.ShutdownDelay)
				if err != nil || delay == 0 {
					t.Errorf("shutdown_delay is %q", l.Ingress.ShutdownDelay)
				}
				need += delay
			}
			if got := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; got < need {
				t.Errorf("%s has a grace period of %s, want at least %s", process, got, need)
			}
			if r := d.Spec.Strategy.RollingUpdate; r.MaxUnavailable.IntValue() != 0 || r.MaxSurge.IntValue() != 1 {
				t.Errorf("%s replaces pods with %+v", process, r)
			}
		}
	})
}

// Every selector selects the pods of its own process, and no other pod.
func TestChart_Selectors(t *testing.T) {
	each(t, func(t *testing.T, o objects) {
		check := func(object, process string, selector map[string]string) {
			for _, p := range o.pods() {
				if got, want := selects(selector, p.labels), p.process == process; got != want {
					t.Errorf("%s selects %s: %t, want %t", object, p.process, got, want)
				}
			}
		}
		for _, d := range o.deployments {
			check("Deployment "+d.Name, d.Labels["app.kubernetes.io/component"], d.Spec.Selector.MatchLabels)
		}
		ports := map[string]bool{}
		for _, s := range o.services {
			check("Service "+s.Name, s.Labels["app.kubernetes.io/component"], s.Spec.Selector)
			for _, port := range s.Spec.Ports {
				ports[s.Name+" "+port.Name] = true
				found := false
				for _, p := range o.pods() {
					for _, c := range p.Containers[0].Ports {
						found = found || selects(s.Spec.Selector, p.labels) && c.Name == port.TargetPort.String()
					}
				}
				if !found {
					t.Errorf("Service %s: no container has the port %s", s.Name, port.TargetPort.String())
				}
				if (port.Name == "ops") != strings.HasSuffix(s.Name, "-ops") {
					t.Errorf("Service %s publishes %s", s.Name, port.Name)
				}
			}
		}
		for _, b := range o.budgets {
			check("PodDisruptionBudget "+b.Name, b.Labels["app.kubernetes.io/component"], b.Spec.Selector.MatchLabels)
			if b.Spec.MaxUnavailable.IntValue() != 1 || b.Spec.MinAvailable != nil {
				t.Errorf("PodDisruptionBudget %s permits %+v", b.Name, b.Spec)
			}
		}
		for _, i := range o.ingresses {
			rule := i.Spec.Rules[0]
			path := rule.HTTP.Paths[0]
			if service := path.Backend.Service; !ports[service.Name+" "+service.Port.Name] {
				t.Errorf("Ingress %s forwards to %+v, which no Service has", i.Name, service)
			}
			if i.Spec.TLS[0].Hosts[0] != rule.Host || i.Spec.TLS[0].SecretName == "" {
				t.Errorf("Ingress %s: TLS is for %v, and the host is %s", i.Name, i.Spec.TLS, rule.Host)
			}
			if strings.HasSuffix(i.Name, "-webhooks") && path.Path != "/hooks" {
				t.Errorf("Ingress %s publishes %s", i.Name, path.Path)
			}
		}
	})
}

// A fixed number of replicas would undo the scaling at every upgrade.
func TestChart_Scaler_OwnsTheReplicas(t *testing.T) {
	each(t, func(t *testing.T, o objects) {
		scaled := map[string]bool{}
		for _, s := range o.scalers {
			scaled[s.Spec.ScaleTargetRef.Name] = true
			if *s.Spec.MinReplicas < 2 || s.Spec.MaxReplicas < *s.Spec.MinReplicas || *s.Spec.Metrics[0].Resource.Target.AverageUtilization == 0 {
				t.Errorf("%s: %+v", s.Name, s.Spec)
			}
		}
		for _, d := range o.deployments {
			if (d.Spec.Replicas == nil) != scaled[d.Name] {
				t.Errorf("%s has a number of replicas: %t, and a scaler: %t", d.Name, d.Spec.Replicas != nil, scaled[d.Name])
			}
			delete(scaled, d.Name)
		}
		if len(scaled) > 0 {
			t.Errorf("scalers without a Deployment: %v", scaled)
		}
	})
}

// Every pod has one policy for both directions. It reaches only DNS, the database, Temporal and the listed ports.
func TestChart_NetworkPolicies(t *testing.T) {
	want := map[string]map[string]string{
		"default":      {"ingress": "8080 < > 53 5432 7233 443", "worker": "< > 53 5432 7233 443 587", "migrate": "< > 53 5432"},
		"complete":     {"ingress": "8080 8082 < > 53 6432 7234 443", "worker": "8084 < > 53 6432 7234 443 465", "console": "8081 8085 < > 53 6432 7234 443", "migrate": "< > 53 6432"},
		"certificates": {"ingress": "8080 < > 53 5432 7233 443", "worker": "< > 53 5432 7233 443 587", "migrate": "< > 53 5432"},
		"small":        {},
	}
	for name, values := range variations {
		o, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range o.pods() {
			var of []networking.NetworkPolicy
			for _, n := range o.policies {
				if selects(n.Spec.PodSelector.MatchLabels, p.labels) {
					of = append(of, n)
				}
			}
			if len(of) == 0 && want[name][p.process] == "" {
				continue
			}
			if len(of) != 1 || len(of[0].Spec.PolicyTypes) != 2 {
				t.Errorf("%s: %s has the policies %+v", name, p.process, of)
				continue
			}
			var got []string
			add := func(ports []networking.NetworkPolicyPort) {
				for _, port := range ports {
					if text := port.Port.String(); len(got) == 0 || got[len(got)-1] != text {
						got = append(got, text)
					}
				}
				if len(ports) == 0 {
					got = append(got, "every port")
				}
			}
			for i, rule := range of[0].Spec.Ingress {
				add(rule.Ports)
				if name == "complete" && len(rule.From) != 1 || name != "complete" && (len(rule.From) != 0 || i > 0) {
					t.Errorf("%s: %s accepts %+v", name, p.process, rule)
				}
			}
			got = append(got, "<", ">")
			for _, rule := range of[0].Spec.Egress {
				add(rule.Ports)
			}
			if text := strings.Join(got, " "); text != want[name][p.process] {
				t.Errorf("%s: %s may use the ports %q, want %q", name, p.process, text, want[name][p.process])
			}
		}
	}
}

// The migration runs before everything else, with the roles of all processes and the configuration of the processes.
func TestChart_Migration_BeforeTheProcesses(t *testing.T) {
	o, err := render(variations["default"])
	if err != nil {
		t.Fatal(err)
	}
	job := o.jobs[0]
	hook := func(annotations map[string]string) string {
		return annotations["helm.sh/hook"] + " " + annotations["helm.sh/hook-weight"] + " " + annotations["helm.sh/hook-delete-policy"]
	}
	if got := hook(job.Annotations); got != "pre-install,pre-upgrade 0 before-hook-creation" {
		t.Errorf("the Job is the hook %q", got)
	}
	needed := 0
	for _, c := range o.configMaps {
		if c.Name == job.Name && hook(c.Annotations) == "pre-install,pre-upgrade -10 before-hook-creation" {
			needed++
		}
		if strings.TrimSpace(c.Data["pawl.yaml"]) != strings.TrimSpace(o.configMaps[0].Data["pawl.yaml"]) {
			t.Error("the migration has another configuration than the processes")
		}
	}
	for _, n := range o.policies {
		if n.Name == job.Name && hook(n.Annotations) == "pre-install,pre-upgrade -10 before-hook-creation" {
			needed++
		}
	}
	if needed != 2 {
		t.Errorf("%d of the ConfigMap and the policy of the Job are created before it", needed)
	}
	args := "migrate --config /etc/pawl/pawl.yaml --console-role pawl_console --ingress-role pawl_ingress --worker-role pawl_worker"
	if got := strings.Join(job.Spec.Template.Spec.Containers[0].Args, " "); got != args {
		t.Errorf("the Job runs %s, want %s", got, args)
	}
	if *job.Spec.ActiveDeadlineSeconds == 0 || job.Spec.Template.Spec.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("the Job is %+v", job.Spec)
	}
}

// A new configuration replaces the pods, because pawl reads it only at the start.
func TestChart_Configuration_ReplacesPods(t *testing.T) {
	sums := map[string]bool{}
	for _, more := range []string{"", "\nconfig: {api: {stale_if_error: 0s}}"} {
		o, err := render(variations["default"] + more)
		if err != nil {
			t.Fatal(err)
		}
		sums[o.deployments[0].Spec.Template.Annotations["checksum/config"]] = true
	}
	if len(sums) != 2 {
		t.Errorf("the annotations are %v, want two different ones", sums)
	}
}

func TestChart_Exposed_HostsAreInTheConfiguration(t *testing.T) {
	o, err := render(variations["complete"])
	if err != nil {
		t.Fatal(err)
	}
	var l listeners
	if err := yaml.Unmarshal([]byte(o.pawlYAML(t, o.pods()[0])), &l); err != nil {
		t.Fatal(err)
	}
	for _, i := range o.ingresses {
		if url := "https://" + i.Spec.Rules[0].Host; url != l.Ingress.PublicURL && url != l.Console.URL {
			t.Errorf("%s has the host of %s; pawl.yaml has %q and %q", i.Name, url, l.Ingress.PublicURL, l.Console.URL)
		}
	}
	if !strings.Contains(o.notes, "https://hooks.example.com/hooks/stripe") {
		t.Errorf("the notes are %s", o.notes)
	}
}

// Prometheus finds every process, and has the rules of deploy/alerts.
func TestChart_Monitoring(t *testing.T) {
	o, err := render(variations["complete"])
	if err != nil {
		t.Fatal(err)
	}
	monitor, found := o.monitors[0], 0
	for _, s := range o.services {
		if !selects(monitor.Spec.Selector.MatchLabels, s.Labels) {
			continue
		}
		found++
		if s.Spec.Ports[0].Name != monitor.Spec.Endpoints[0].Port || s.Spec.ClusterIP != core.ClusterIPNone {
			t.Errorf("Service %s is %+v", s.Name, s.Spec)
		}
	}
	if found != len(o.deployments) {
		t.Errorf("the monitor selects %d Services of %d processes", found, len(o.deployments))
	}
	content, err := os.ReadFile(filepath.Join(repository, "deploy", "alerts", "pawl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want monitoring.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict(content, &want); err != nil {
		t.Fatal(err)
	}
	if len(want.Groups[0].Rules) < 10 || !reflect.DeepEqual(o.rules[0].Spec, want) {
		t.Error("the rules differ from deploy/alerts/pawl.yaml")
	}
}

// The image is the version of the chart, unless a tag or a digest is set.
func TestChart_Image(t *testing.T) {
	for values, want := range map[string]string{
		"":                          `^ghcr\.io/pawlhq/pawl:\d+\.\d+\.\d+$`,
		"\nimage: {tag: \"9.9.9\"}": `^ghcr\.io/pawlhq/pawl:9\.9\.9$`,
		"\nimage: {repository: r/p, digest: \"sha256:" + strings.Repeat("ab", 32) + "\"}": `^r/p@sha256:(ab){32}$`,
	} {
		o, err := render(variations["default"] + values)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range o.pods() {
			if got := p.Containers[0].Image; !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%s runs %s, want %s", p.process, got, want)
			}
		}
	}
}
