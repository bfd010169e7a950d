package parameter_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/cmd/internal/parameter"
)

var rule = parameter.Rule{Known: []string{"dry_run", "status"}, Inputs: []string{"status"}}

func TestValues_Refused_NamesTheParameter(t *testing.T) {
	t.Parallel()
	for query, says := range map[string]string{
		"dry_run=": `"dry_run" is empty`, "dry_run": `"dry_run" is empty`, "dry_run=false&dry_run=true": `"dry_run" is given 2 times`,
		"dry-run=true": `no parameter "dry-run"`, "dry_run=%zz": `"dry_run" cannot be read`, "dry_run=true;status=x": `"dry_run" cannot be read`,
		"status=%00": "status: write UTF-8", "status=%ff": "status: write UTF-8", "=x": `no parameter ""`, "status=a&status=": `"status" is given 2 times`,
		"DRY_RUN=true": `no parameter "DRY_RUN"`,
	} {
		if got, err := rule.Values(query); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v; want %q", query, got, err, says)
		}
	}
	if got, err := rule.Values("dry_run=true&status="); err != nil || got.Get("dry_run") != "true" || got.Has("status") {
		t.Errorf("%v, %v; want the empty input absent", got, err)
	}
	if got, err := (parameter.Rule{Foreign: true}).Values("code=x&hint="); err != nil || got.Get("code") != "x" {
		t.Errorf("of another system: %v, %v", got, err)
	}
}

func TestObject_Refused_NamesTheParameter(t *testing.T) {
	t.Parallel()
	for body, says := range map[string]string{
		`{"dry_run":""}`: `"dry_run" is empty`, `{"dry_run":"a","dry_run":"b"}`: `"dry_run" is given 2 times`, `{"x":"a"}`: `no parameter "x"`,
		`{"dry_run":1}`: `"dry_run": write a string`, `{"dry_run":null}`: `"dry_run": write a string`, `{"dry_run":{}}`: `"dry_run": write a string`,
		`["a"]`: "not a JSON object", `{"dry_run":"a"`: "not a JSON object", `{"dry_run":"a"} {}`: "not a JSON object", `null`: "not a JSON object",
		"{\"dry_run\":\"\xff\"}": "not UTF-8", `{"dry_run":"\u0000"}`: "dry_run: write UTF-8",
	} {
		if got, err := rule.Object([]byte(body)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v; want %q", body, got, err, says)
		}
	}
	if got, err := rule.Object([]byte(`{"dry_run":"true"}`)); err != nil || got["dry_run"] != "true" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestFlags_EmptyRepeatedNotText_Refused(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"--mode=": "empty", "--mode live --mode test": "twice", "--mode \xff": "UTF-8", "--dry-run --dry-run=false": "twice", "--role a --role b --mode live --dry-run": "",
	} {
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		mode, dry, roles := flags.String("mode", "", ""), flags.Bool("dry-run", false, ""), flags.StringSlice("role", nil, "")
		parameter.Flags(flags)
		parameter.Flags(flags)
		err := flags.Parse(strings.Fields(args))
		if says == "" && (err != nil || *mode != "live" || !*dry || len(*roles) != 2) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v, want %q", args, err, says)
		}
	}
}
