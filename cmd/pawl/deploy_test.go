package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/localpg"
	"github.com/pawlhq/pawl/schema/schematest"
)

// composeFile contains the parts of docker-compose.yml that these tests check.
type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
	Networks map[string]struct {
		Internal bool `yaml:"internal"`
		IPAM     struct {
			Config []struct{ Subnet, Gateway string } `yaml:"config"`
		} `yaml:"ipam"`
	} `yaml:"networks"`
	Secrets map[string]struct {
		File string `yaml:"file"`
	} `yaml:"secrets"`
}

type composeService struct {
	Image    string          `yaml:"image"`
	Profiles []string        `yaml:"profiles"`
	Build    map[string]any  `yaml:"build"`
	User     string          `yaml:"user"`
	Restart  string          `yaml:"restart"`
	Command  []string        `yaml:"command"`
	Volumes  []string        `yaml:"volumes"`
	Secrets  []composeSecret `yaml:"secrets"`
	Networks []string        `yaml:"networks"`
	Ports    []string        `yaml:"ports"`
	Memory   string          `yaml:"mem_limit"`
	CPUs     string          `yaml:"cpus"`
	Logging  struct {
		Driver  string            `yaml:"driver"`
		Options map[string]string `yaml:"options"`
	} `yaml:"logging"`
	Processes int      `yaml:"pids_limit"`
	Hardening []string `yaml:"security_opt"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck map[string]any    `yaml:"healthcheck"`
	Environment map[string]string `yaml:"environment"`
}

// composeSecret is a secret of a service: either its name, or its name and the file name in the service.
type composeSecret struct{ Source, Target string }

func (s *composeSecret) UnmarshalYAML(content []byte) error {
	var long struct{ Source, Target string }
	if err := yaml.Unmarshal(content, &long); err == nil {
		*s = long
		return nil
	}
	err := yaml.Unmarshal(content, &s.Source)
	s.Target = s.Source
	return err
}

func compose(t *testing.T) composeFile {
	t.Helper()
	var c composeFile
	if err := yaml.Unmarshal([]byte(commandtest.Read(t, filepath.Join(repository, "docker-compose.yml"))), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Services) < 9 {
		t.Fatalf("read only %d services", len(c.Services))
	}
	return c
}

// The test repeats checks that Compose makes at the start, and adds a check that it does not make: image versions are
// pinned.
func TestCompose_Services_AreWhole(t *testing.T) {
	t.Parallel()
	c := compose(t)
	pinned := regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+(\.\d+)?(-[a-z0-9.]+)?$`)
	for name, s := range c.Services {
		if s.Image != "pawl:local" && !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %q is not pinned to a version", name, s.Image)
		}
		for on, how := range s.DependsOn {
			other, ok := c.Services[on]
			switch {
			case !ok:
				t.Errorf("%s depends on %s, which is no service", name, on)
			case how.Condition == "service_healthy" && other.Healthcheck["test"] == nil:
				t.Errorf("%s waits for %s to be healthy, which has no health check", name, on)
			case how.Condition == "service_completed_successfully" && other.Restart != "on-failure:5":
				t.Errorf("%s waits for %s to end, which restarts %q: a fault must end `up` after some tries", name, on, other.Restart)
			case how.Condition != "service_healthy" && how.Condition != "service_completed_successfully":
				t.Errorf("%s: %q does not set %s", name, how.Condition, on)
			}
		}
		for _, secret := range s.Secrets {
			if _, ok := c.Secrets[secret.Source]; !ok {
				t.Errorf("%s wants the secret %s, which is not declared", name, secret.Source)
			}
		}
		for _, network := range s.Networks {
			if _, ok := c.Networks[network]; !ok {
				t.Errorf("%s is in the network %s, which is not declared", name, network)
			}
		}
		for _, volume := range s.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(from, "./") {
				if _, ok := c.Volumes[from]; !ok {
					t.Errorf("%s mounts %s, which is not declared", name, from)
				}
			} else if _, err := os.Stat(filepath.Join(repository, from)); err != nil {
				t.Errorf("%s mounts %s, which is not there", name, from)
			}
		}
	}
}

// A compromised service can reach only its own dependencies, and only the intended ports are published on the
// machine.
func TestCompose_Services_AreApart(t *testing.T) {
	t.Parallel()
	c := compose(t)
	neighbours := map[string]string{
		"postgres":           "console ingress migrate temporal temporal-schema worker",
		"temporal":           "console ingress postgres temporal-namespace temporal-schema temporal-ui worker",
		"temporal-ui":        "console ingress temporal temporal-namespace temporal-ui-gate worker",
		"temporal-ui-gate":   "temporal-ui",
		"temporal-schema":    "postgres temporal",
		"temporal-namespace": "console ingress temporal temporal-ui worker",
		"mail":               "worker",
		"migrate":            "console ingress postgres worker",
		"ingress":            "console migrate postgres prometheus temporal temporal-namespace temporal-ui worker",
		"console":            "ingress migrate postgres prometheus temporal temporal-namespace temporal-ui worker",
		"worker":             "console ingress mail migrate postgres prometheus temporal temporal-namespace temporal-ui",
		"prometheus":         "alertmanager console grafana ingress worker",
		"alertmanager":       "grafana prometheus",
		"grafana":            "alertmanager prometheus",
	}
	for name, s := range c.Services {
		var near []string
		for other, o := range c.Services {
			if other != name && slices.ContainsFunc(s.Networks, func(n string) bool { return slices.Contains(o.Networks, n) }) {
				near = append(near, other)
			}
		}
		slices.Sort(near)
		if got := strings.Join(near, " "); got != neighbours[name] {
			t.Errorf("%s reaches %s; want %s", name, got, neighbours[name])
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") && !strings.HasPrefix(port, "${PAWL_PUBLISH:-127.0.0.1:") {
				t.Errorf("%s publishes %s to everybody", name, port)
			}
		}
		leaves := slices.ContainsFunc(s.Networks, func(n string) bool { return !c.Networks[n].Internal })
		if want := len(s.Ports) > 0 || name == "worker"; leaves != want {
			t.Errorf("%s has a way out of its networks: %t, want %t", name, leaves, want)
		}
		if s.Memory == "" || s.CPUs == "" || s.Processes == 0 || !slices.Contains(s.Hardening, "no-new-privileges:true") {
			t.Errorf("%s has no limit of memory, processors or processes, or may gain privileges", name)
		}
	}
	own := map[string]string{"migrate": "pawl_owner_database_url", "ingress": "pawl_ingress_database_url", "worker": "pawl_worker_database_url", "console": "pawl_console_database_url"}
	for name, url := range own {
		secrets := c.Services[name].Secrets
		if !slices.Contains(secrets, composeSecret{url, "pawl_database_url"}) || len(secrets) != 2 {
			t.Errorf("%s has the secrets %v, want its own database URL and the source's", name, secrets)
		}
	}
}

// The profile signals scrapes the ports in pawl.yaml, loads the alert rules, and contains the dashboard.
func TestCompose_Signals_ScrapeAndShowWhatIsThere(t *testing.T) {
	t.Parallel()
	var configured struct{ Ops map[string]string }
	if err := yaml.Unmarshal([]byte(commandtest.Read(t, filepath.Join(repository, "deploy", "compose", "pawl.yaml"))), &configured); err != nil {
		t.Fatal(err)
	}
	type target struct {
		Names []string
		Port  string
	}
	var scraped struct {
		Rules   []string `yaml:"rule_files"`
		Scrapes []struct {
			DNS []target `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(commandtest.Read(t, filepath.Join(repository, "deploy", "compose", "signals", "prometheus.yml"))), &scraped); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, of := range scraped.Scrapes[0].DNS {
		got[of.Names[0]] = "0.0.0.0:" + of.Port
	}
	if !maps.Equal(got, configured.Ops) {
		t.Errorf("scraped %v, of the ports %v", got, configured.Ops)
	}
	services := compose(t).Services
	if !slices.Equal(scraped.Rules, []string{"/etc/prometheus/rules/*.yaml"}) ||
		!slices.Contains(services["prometheus"].Volumes, "./deploy/alerts/pawl.yaml:/etc/prometheus/rules/pawl.yaml:ro") {
		t.Errorf("the rules %q differ from the mounted ones", scraped.Rules)
	}
	if !slices.Contains(services["grafana"].Volumes, "./deploy/grafana/pawl.json:/var/lib/grafana/dashboards/pawl.json:ro") {
		t.Error("the dashboard is not mounted")
	}
	for name, s := range services {
		profiles := map[string]string{"alertmanager": "signals", "grafana": "signals", "prometheus": "signals", "mail": "mailbox"}
		if got := strings.Join(s.Profiles, " "); got != profiles[name] {
			t.Errorf("%s has the profiles %q, want %q", name, got, profiles[name])
		}
	}
}

// A trusted proxy can set the client address in X-Forwarded-For, which limits use. Only the address of connections
// from this machine is trusted, and no network.
func TestCompose_TrustedProxies_OneAddress(t *testing.T) {
	t.Parallel()
	var configured struct {
		Ingress struct {
			Limits struct {
				Trusted []string `yaml:"trusted_proxies"`
			}
		}
	}
	file := commandtest.Read(t, filepath.Join(repository, "deploy", "compose", "pawl.yaml"))
	if err := yaml.Unmarshal([]byte(file), &configured); err != nil {
		t.Fatal(err)
	}
	networks := compose(t).Networks
	want := []string{networks["public"].IPAM.Config[0].Gateway + "/32"}
	if got := configured.Ingress.Limits.Trusted; !slices.Equal(got, want) {
		t.Errorf("trusted proxies %v, want %v", got, want)
	}
	if offered := "\n  # trusted_proxies: [" + networks["console"].IPAM.Config[0].Gateway + "/32] "; !strings.Contains(file, offered) {
		t.Errorf("pawl.yaml does not offer %q for the console", offered)
	}
}

// postgres-init.sh creates roles that work: the owner can migrate, the ingress can accept webhooks and rejections, and
// no password is visible in the list of processes.
func TestCompose_Roles_Work(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is not here")
	}
	dir := t.TempDir()
	secret := func(name string) string { return filepath.Join(dir, "secrets", name) }
	for _, name := range []string{"secrets.sh", "postgres-init.sh"} {
		commandtest.Write(t, filepath.Join(dir, name), strings.ReplaceAll(commandtest.Read(t, filepath.Join(repository, "deploy", "compose", name)), "/run/secrets/", secret("")+"/"))
	}
	if out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "secrets.sh")).CombinedOutput(); err != nil {
		t.Fatalf("secrets.sh: %v: %s", err, out)
	}
	server, err := localpg.Start(t.Context(), localpg.Options{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	admin, err := pgx.ParseConfig(server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	// As in the image, the superuser is postgres, and the role pawl does not exist.
	run := func(config *pgx.ConnConfig, sql string) {
		t.Helper()
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err == nil {
			_, err = conn.Exec(t.Context(), sql)
			_ = conn.Close(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run(admin, fmt.Sprintf("create role postgres superuser login password '%s'", admin.Password))
	admin.User = "postgres"
	run(admin, "alter role pawl rename to bootstrap")
	init := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "postgres-init.sh"))
	init.Env = append(os.Environ(), "PGHOST="+admin.Host, fmt.Sprintf("PGPORT=%d", admin.Port), "PGPASSWORD="+admin.Password)
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("postgres-init.sh: %v: %s", err, out)
	}
	dsn := func(role string) string {
		return strings.Replace(strings.TrimSpace(commandtest.Read(t, secret("pawl_"+role+"_database_url"))), "postgres:5432", fmt.Sprintf("%s:%d", admin.Host, admin.Port), 1)
	}
	s := setup(t, dsn("owner"), map[string]string{"stripe": "stripe"})
	if r := s.Pawl(t, "migrate", "--ingress-role", "pawl_ingress", "--worker-role", "pawl_worker", "--console-role", "pawl_console"); r.Code != 0 {
		t.Fatalf("migrate: exit %d, %s", r.Code, r.Err)
	}
	g := commandtest.NewGate(t, s, dsn("ingress"))
	body := []byte(`{"id":"evt_1","object":"event","type":"invoice.paid","livemode":true,"data":{"object":{"id":"in_1"}}}`)
	if got := g.Post(t, "/hooks/stripe", webhook.SignInput{Secret: commandtest.Secret, Body: body}); got.Code != http.StatusAccepted {
		t.Errorf("a delivery: answered %d, want 202", got.Code)
	}
	if got := g.Post(t, "/hooks/stripe", webhook.SignInput{Secret: "whsec_another", Body: body}); got.Code != http.StatusUnauthorized {
		t.Errorf("a forged one: answered %d, want 401", got.Code)
	}
	g.Stop()
	if list := commandtest.Decode[[]rejection.Shown](t, s.With("DSN", dsn("worker")).Pawl(t, "rejections", "list", "--json")); len(list) != 1 {
		t.Errorf("kept %d rejections, want 1", len(list))
	}
	if r := s.With("DSN", dsn("ingress")).Pawl(t, "audit", "verify"); r.Code == 0 {
		t.Error("the ingress' role reads the audit trail")
	}
	console := s.With("DSN", dsn("console"))
	if r := console.Pawl(t, "events", "payload", "evt_1"); r.Code == 0 {
		t.Error("the console's role reads a payload")
	}
	worker := s.With("DSN", dsn("worker"))
	if r := worker.Pawl(t, "events", "payload", "evt_1"); r.Code != 0 {
		t.Errorf("the worker's role shows a payload, masked: exit %d, %s", r.Code, r.Err)
	}
	if r := console.Pawl(t, "rebuild", "--apply", "acme", "--mode", "live", "--reason", "a test", "--yes"); r.Code == 0 {
		t.Error("the console's role rebuilds accounts")
	}
	composedConsole(t, secret, dsn("console"))
	if script := commandtest.Read(t, filepath.Join(dir, "postgres-init.sh")); strings.Contains(script, "$(cat") {
		t.Error("a password is an argument of a command")
	}
}

// composedConsole starts the console as docker-compose.yml does, but without a container. The process has the
// command, the environment, the secrets and the database role from the file. Postgres is the only other service. The
// health check in the file reports that the console is healthy. `adduser` writes a person into the volume. The person
// signs in, sees an event, and is signed out at the next request after `removeuser`.
func composedConsole(t *testing.T, secret func(string) string, dsn string) {
	t.Helper()
	service, mounted := compose(t).Services["console"], t.TempDir()
	for _, s := range service.Secrets {
		commandtest.Write(t, filepath.Join(mounted, s.Target), commandtest.Read(t, secret(s.Source)))
	}
	commandtest.Write(t, filepath.Join(mounted, "pawl_database_url"), dsn) // Postgres has another address in this test
	listen, health := schematest.FreeAddr(t), schematest.FreeAddr(t)
	file := filepath.Join(mounted, "pawl.yaml")
	commandtest.Write(t, file, strings.NewReplacer("/run/secrets/", mounted+"/", "/var/lib/pawl/", t.TempDir()+"/", "0.0.0.0:8081", listen, "http://127.0.0.1:8081", "http://"+listen, "0.0.0.0:8085", health).
		Replace(commandtest.Read(t, filepath.Join(repository, "deploy", "compose", "pawl.yaml"))))
	here := func(words []string) []string { // replaces paths of the container with paths of this test
		return strings.Split(strings.ReplaceAll(strings.Join(words, "\x00"), "/etc/pawl/pawl.yaml", file), "\x00")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended, said := make(chan int, 1), new(bytes.Buffer)
	go func() {
		ended <- program().Run(ctx, here(service.Command), command.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: said}, func(key string) (string, bool) {
			value, set := service.Environment[key]
			return value, set
		})
	}()
	var check []string
	for _, word := range service.Healthcheck["test"].([]any)[2:] { // skips the word CMD and the program name
		check = append(check, word.(string))
	}
	until(t, "the console is healthy", func() bool { return pawl(t, service.Environment, here(check)...).Code == 0 })
	user := func(typing string, command ...string) {
		t.Helper()
		if r := commandtest.Run(t, program(), typing, nil, append([]string{"--config", file, "console"}, command...)...); r.Code != 0 {
			t.Fatalf("console %s: exit %d, %s", command, r.Code, r.Err)
		}
	}
	user("correct horse battery\n", "adduser", "ada", "--role", "admin")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := http.Client{Jar: jar}
	for _, ask := range []func() (*http.Response, error){
		func() (*http.Response, error) {
			return browser.PostForm("http://"+listen+"/sign-in", url.Values{"name": {"ada"}, "password": {"correct horse battery"}, "next": {"/events/evt_1"}})
		},
		func() (*http.Response, error) { return browser.Get("http://" + listen + "/overview") },
	} {
		got, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if err != nil || got.StatusCode != http.StatusOK || !strings.Contains(string(page), "<summary>ada</summary>") {
			t.Errorf("%s: %d, %v: %s", got.Request.URL, got.StatusCode, err, page)
		}
	}
	user("", "removeuser", "ada")
	got, err := browser.Get("http://" + listen + "/overview")
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Body.Close()
	if got.Request.URL.Path != "/sign-in" {
		t.Errorf("a person who was removed is at %s, want /sign-in", got.Request.URL)
	}
	if stop(); <-ended != 0 {
		t.Errorf("the console ends badly: %s", said)
	}
	if log := said.String(); !strings.Contains(log, `"role":"pawl_console"`) || strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the console logs %s", log)
	}
}

// The commands in the containers exist, with all their flags.
func TestCompose_PawlCommands_AreUnderstood(t *testing.T) {
	t.Parallel()
	for name, s := range compose(t).Services {
		if s.Image != "pawl:local" {
			continue
		}
		if err := commandtest.Understood(program(), s.Command); err != nil {
			t.Errorf("%s: %v: %v", name, s.Command, err)
		}
	}
}

// secrets.sh creates every secret that the file declares, and the configuration is valid with the secrets of each
// service.
func TestCompose_Configuration_PassesCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	commandtest.Write(t, filepath.Join(dir, "secrets.sh"), commandtest.Read(t, filepath.Join(repository, "deploy", "compose", "secrets.sh")))
	for range 2 { // the second run keeps the secrets of the first run
		if out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "secrets.sh")).CombinedOutput(); err != nil {
			t.Fatalf("secrets.sh: %v: %s", err, out)
		}
	}
	c := compose(t)
	for name, secret := range c.Secrets {
		if _, err := os.Stat(filepath.Join(dir, "secrets", filepath.Base(secret.File))); err != nil {
			t.Errorf("secrets.sh does not make %s", name)
		}
	}
	for name, s := range c.Services {
		if s.Image != "pawl:local" || !slices.Contains(s.Command, "--config") {
			continue
		}
		mounted := filepath.Join(dir, name)
		if err := os.Mkdir(mounted, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, secret := range s.Secrets {
			commandtest.Write(t, filepath.Join(mounted, secret.Target), commandtest.Read(t, filepath.Join(dir, "secrets", secret.Source)))
		}
		file := filepath.Join(dir, name+".yaml")
		commandtest.Write(t, file, strings.ReplaceAll(commandtest.Read(t, filepath.Join(repository, "deploy", "compose", "pawl.yaml")), "/run/secrets/", name+"/"))
		if r := pawl(t, nil, "config", "check", "--config", file); r.Code != 0 {
			t.Errorf("%s: exit %d\n%s%s", name, r.Code, r.Out, r.Err)
		}
	}
}

func TestCompose_Scripts_Parse(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob(filepath.Join(repository, "deploy", "compose", "*.sh"))
	if err != nil || len(scripts) < 4 {
		t.Fatalf("found %v, %v", scripts, err)
	}
	for _, script := range scripts {
		shell := "sh"
		if strings.HasPrefix(commandtest.Read(t, script), "#!/bin/bash") {
			shell = "bash"
		}
		if out, err := exec.CommandContext(t.Context(), shell, "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
}

// A Docker engine is not always available to build the image, so the test uses the build command, which .ci/run also
// uses.
func TestDockerfile_BuildsAsContinuousIntegrationDoes(t *testing.T) {
	t.Parallel()
	command := regexp.MustCompile(`CGO_ENABLED=0 go build -tags nodev -trimpath -ldflags=['"]-s -w[^-]*(-X main\.\w+=\$[A-Z]+ ?)*['"] -o `)
	for _, file := range []string{"deploy/Dockerfile", ".ci/run"} {
		if !command.MatchString(commandtest.Read(t, filepath.Join(repository, file))) {
			t.Errorf("%s does not build with %s", file, command)
		}
	}
	ignore := strings.Fields(commandtest.Read(t, filepath.Join(repository, ".dockerignore")))
	packages, err := filepath.Glob(filepath.Join(repository, "*", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range packages {
		room := strings.Split(filepath.ToSlash(file), "/")[2]
		// directories that begin with a dot are not part of pawl
		if !strings.HasPrefix(room, ".") && !slices.Contains(ignore, "!"+room) {
			t.Fatalf(".dockerignore keeps %s out of the image's build", room)
		}
	}
}

// Every step in the header of .ci/run can be called by name, and the header lists every step.
func TestContinuousIntegration_Steps_EachInTheHeaderAndCallable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(repository, ".ci", "run")
	if exec.CommandContext(t.Context(), "bash", "-c", "shopt -s inherit_errexit").Run() != nil {
		t.Skip(".ci/run needs bash 4.4")
	}
	_, header, _ := strings.Cut(commandtest.Read(t, file), "# Steps: ")
	header, _, _ = strings.Cut(header, ".")
	listed := strings.Fields(strings.ReplaceAll(header, "#", " "))
	out, err := exec.CommandContext(t.Context(), file, "nosuch").CombinedOutput()
	_, steps, found := strings.Cut(string(out), "nosuch, which is no step. The steps are: ")
	if err == nil || !found {
		t.Fatalf("`.ci/run nosuch` ended with %v: %s", err, out)
	}
	if callable := strings.Fields(steps); !slices.Equal(callable, listed) {
		t.Errorf("the header of .ci/run lists %q, and these can be called: %q", listed, callable)
	}
}

// Actions of other authors in continuous integration are pinned by commit: a tag can be moved.
func TestContinuousIntegration_Actions_PinnedByCommit(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(repository, ".github", "workflows", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows %v, %v", files, err)
	}
	for _, file := range files {
		used := regexp.MustCompile(`(?m)uses: *(\S+)`).FindAllStringSubmatch(commandtest.Read(t, file), -1)
		if len(used) == 0 {
			t.Errorf("%s uses nothing: the reader of this test no longer finds it", file)
		}
		for _, action := range used {
			if !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(action[1]) {
				t.Errorf("%s uses %s, which is not pinned to a commit", file, action[1])
			}
		}
	}
}
