package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pawlhq/pawl/schema/schematest"
)

// rule is an alert of deploy/alerts/pawl.yaml.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type ruleFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

var (
	// window is a range, [5m], or an offset.
	window = regexp.MustCompile(`(\[|:|offset )(\d+)([smhd])\b`)
	// age matches a comparison of an age metric with a number of seconds. Ratios and the time until a deadline are
	// not shortened.
	age    = regexp.MustCompile(`(pawl_(?:\w+_oldest|sink_down|paused|endpoint_checked|database_\w+)_seconds(?:\{[^}]*\})?\) > )(\d+)`)
	metric = regexp.MustCompile(`\b(?:pawl|temporal)_\w+`)
)

var units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// shortest is the minimum for a shortened range and for a shortened `for`. Prometheus scrapes each second, and a busy
// machine misses some scrapes.
const shortest = 10 * time.Second

// shorter returns the rule with all times divided by scale.
func (r rule) shorter(t *testing.T, scale int) rule {
	t.Helper()
	duration := func(number, unit string) string {
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%dms", max(time.Duration(n)*units[unit]/time.Duration(scale), shortest).Milliseconds())
	}
	r.Expr = window.ReplaceAllStringFunc(r.Expr, func(found string) string {
		part := window.FindStringSubmatch(found)
		return part[1] + duration(part[2], part[3])
	})
	r.Expr = age.ReplaceAllStringFunc(r.Expr, func(found string) string {
		part := age.FindStringSubmatch(found)
		seconds, err := strconv.Atoi(part[2])
		if err != nil {
			t.Fatal(err)
		}
		return part[1] + strconv.FormatFloat(max(float64(seconds)/float64(scale), 1), 'f', -1, 64)
	})
	if r.For != "" {
		r.For = duration(r.For[:len(r.For)-1], r.For[len(r.For)-1:])
	}
	return r
}

// rules reads the alerts that pawl ships, divides their times by scale, and writes them to a file. It checks that the
// file contains every rule with the same metrics and labels, and that every time was changed.
func rules(t *testing.T, to string, scale int) []rule {
	t.Helper()
	shipped := readRules(t, filepath.Join("..", "..", "..", "deploy", "alerts", "pawl.yaml"))
	file := shipped
	file.Groups = slices.Clone(shipped.Groups)
	var all []rule
	for i, group := range file.Groups {
		file.Groups[i].Rules = nil
		for _, r := range group.Rules {
			file.Groups[i].Rules = append(file.Groups[i].Rules, r.shorter(t, scale))
		}
		all = append(all, file.Groups[i].Rules...)
	}
	content, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
	checkShorter(t, shipped, readRules(t, to))
	if out, err := exec.Command("promtool", "check", "rules", to).CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	return all
}

func readRules(t *testing.T, path string) (file ruleFile) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalWithOptions(content, &file, yaml.Strict())
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return file
}

// checkShorter compares the written rules with the shipped rules.
func checkShorter(t *testing.T, shipped, written ruleFile) {
	t.Helper()
	plain := func(expr string) string {
		return regexp.MustCompile(`\d+(ms|[smhd])?`).ReplaceAllString(expr, "#")
	}
	for i, group := range shipped.Groups {
		got := written.Groups[i].Rules
		if len(got) != len(group.Rules) {
			t.Fatalf("group %s has %d rules, want %d", group.Name, len(got), len(group.Rules))
		}
		for j, want := range group.Rules {
			r := got[j]
			if r.Alert != want.Alert || (r.For == "") != (want.For == "") || fmt.Sprint(r.Labels, r.Annotations) != fmt.Sprint(want.Labels, want.Annotations) ||
				plain(r.Expr) != plain(want.Expr) || !slices.Equal(metric.FindAllString(r.Expr, -1), metric.FindAllString(want.Expr, -1)) {
				t.Errorf("%s became\n%+v, of\n%+v", want.Alert, r, want)
			}
			if all := regexp.MustCompile(`_seconds(?:\{[^}]*\})?\) > \d{2,}`); len(all.FindAllString(want.Expr, -1)) != len(age.FindAllString(want.Expr, -1)) {
				t.Errorf("%s compares an age that is not made shorter: %s", want.Alert, want.Expr)
			}
			for _, left := range regexp.MustCompile(`(?:\[|offset )\d+[smhd]\b`).FindAllString(r.Expr, -1) {
				t.Errorf("%s still has %s", want.Alert, left)
			}
		}
	}
}

// prometheus starts Debian's Prometheus with the rules. It scrapes the processes and notifies the receiver.
// prometheus returns its address.
func prometheus(t *testing.T, dir, rules, receiver string, every time.Duration, targets ...string) (addr string) {
	t.Helper()
	config := fmt.Sprintf(`
global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}
rule_files: [%[2]q]
alerting: {alertmanagers: [{static_configs: [{targets: [%[3]q]}]}]}
scrape_configs: [{job_name: pawl, static_configs: [{targets: ["%[4]s"]}]}]
`, every, rules, strings.TrimPrefix(receiver, "http://"), strings.Join(targets, `", "`))
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addr = schematest.FreeAddr(t)
	cmd := exec.Command("prometheus", "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "prometheus"),
		"--web.listen-address", addr, "--rules.alert.resend-delay", "5s", "--log.level", "warn")
	var said output
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus (%s) logged:\n%s", addr, said.String())
		}
	})
	return addr
}

// ask sends a query to Prometheus and decodes the data of its response.
func (a *alarmed) ask(path string, data any) error {
	resp, err := http.Get("http://" + a.prometheus + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return json.NewDecoder(resp.Body).Decode(&struct{ Data any }{data})
}

// evaluated returns the time of the last evaluation of the rules.
func (a *alarmed) evaluated() time.Time {
	var data struct {
		Groups []struct{ LastEvaluation time.Time }
	}
	if err := a.ask("rules", &data); err != nil || len(data.Groups) == 0 {
		return time.Time{}
	}
	return data.Groups[0].LastEvaluation
}

// scraped returns an error if Prometheus has no data of a process.
func (a *alarmed) scraped(process string) error {
	var data struct{ Result []any }
	query := url.Values{"query": {`pawl_audit_broken{instance="` + process + `"}`}}
	if err := a.ask("query?"+query.Encode(), &data); err != nil {
		return err
	}
	if len(data.Result) == 0 {
		return fmt.Errorf("%s was not scraped", process)
	}
	return nil
}
