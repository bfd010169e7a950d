package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

func withDestinations(destinations string) string { return valid + "destinations:\n" + destinations }

// The environment variable STRIPE contains text that is not base64, but a destination's secret must be base64.
func destinationEnvironment(key string) (string, bool) {
	switch key {
	case "CRM":
		return "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", true
	case "STANDIN":
		return "whsec_Y2hhbmdlbWVjaGFuZ2VtZWNoYW5nZW1l", true // changemechangemechangeme
	case "NEXT":
		return "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=", true
	case "WEAK":
		return "whsec_c2hvcnQ=", true
	}
	return environment(key)
}

func TestLoad_Destinations(t *testing.T) {
	t.Parallel()
	cfg, err := loadWith(t, withDestinations("  crm: {url: 'https://crm.example.com/in', sources: [stripe], secrets: [{value: env:CRM}, {value: env:NEXT}]}\n"), destinationEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	crm := cfg.Destinations["crm"]
	if keys := crm.Keys(); len(keys) != 2 || string(keys[0]) != "0123456789abcdef0123456789abcdef" || string(keys[1]) != "fedcba9876543210fedcba9876543210" || crm.Timeout == 0 || crm.Execution != "local" {
		t.Errorf("destination %+v, want its keys decoded and the defaults", crm)
	}
	if got := cfg.DestinationsOf("stripe"); len(got) != 1 || got[0] != "crm" {
		t.Errorf("the events of stripe go to %v", got)
	}
}

func TestLoad_Destinations_Faults(t *testing.T) {
	t.Parallel()
	_, err := loadWith(t, withDestinations("  crm: {sources: [stripe, stripe, nobody], secrets: [{value: env:CRM}, {value: env:WEAK}, {}], execution: twice}\n  Bad Name: {url: 'ftp://x', secrets: [{value: env:STRIPE}]}\n  new: {url: 'https://x.example', secrets: [{value: env:STANDIN}]}\n  none: {url: 'https://x.example', sources: [stripe]}\n"), destinationEnvironment)
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("got %v, want faults", err)
	}
	for _, key := range []string{
		"destinations.crm.url", "destinations.crm.secrets[1].value", "destinations.crm.secrets[2].value", "destinations.crm.execution", "destinations.Bad Name", "destinations.Bad Name.url",
		"destinations.none.secrets", "destinations.new.secrets[0].value", "destinations.crm.sources[1]", "destinations.crm.sources[2]",
	} {
		found := false
		for _, f := range faults {
			found = found || f.Key == key
		}
		if !found {
			t.Errorf("no fault at %s in:\n%v", key, faults)
		}
	}
	if strings.Contains(err.Error(), "c2hvcnQ") {
		t.Error("a fault repeats a secret")
	}
}

// withSelection has a destination with a selection. STRIPE is also the secret of the source code.
const withSelection = `
database: env:DSN
sources:
  stripe: {provider: stripe, mode: live, secrets: [{value: env:STRIPE}], events: [invoice.paid, v1.charge.refunded]}
  code: {provider: github, mode: live, secrets: [{value: env:STRIPE}], events: [push, issues.opened]}
destinations:
  crm:
    url: "https://crm.example.com"
    secrets: [{value: env:CRM}]
    sources: [stripe, code]
    types: [push, issues.*, v1.invoice.paid, charge.refunded]
    when: 'event.action == "opened"'
`

func TestLoad_Destinations_Selection(t *testing.T) {
	t.Parallel()
	cfg, err := loadWith(t, withSelection, destinationEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	if crm := cfg.Destinations["crm"]; len(crm.Types) != 4 || crm.Condition == nil || crm.Condition.Path != "destinations.crm.when" {
		t.Errorf("destination %+v, want its types, and its condition compiled", crm)
	}
	sources, own := "    sources: [stripe, code]\n", "    events: [access.changed]\n"
	for name, tt := range map[string]struct{ old, text, key, problem string }{
		"types without sources": {sources, own, "destinations.crm.types (line 11)", "the destination has no sources; write sources: [NAME], or remove it"},
		"when without sources":  {sources, own, "destinations.crm.when (line 12)", "the destination has no sources; write sources: [NAME], or remove it"},
		"quoted condition":      {"event.action", "evnt.action", "destinations.crm.when (line 12, column 12)", "undeclared reference to 'evnt'"},
		"block condition":       {"'event.action == \"opened\"'", "|\n      event.action == \"opened\"\n      && acton", "destinations.crm.when (line 14, column 10)", "undeclared reference to 'acton'"},
		"steps":                 {"event.action", "steps.a.id", "destinations.crm.when (line 12, column 12)", "it has the variables event, meta"},
		"no condition":          {"event.action == \"opened\"", "meta.account", "destinations.crm.when (line 12)", "has the type string; write an expression of another type: a condition"},
		"star inside":           {"issues.*", "iss*.opened", "destinations.crm.types[1] (line 11, column 19)", "has a * that is not at its end"},
		"unwanted type":         {"issues.*", "star.*", "destinations.crm.types[1] (line 11, column 19)", `sources.stripe.events and sources.code.events does not contain "star.*"`},
		"listed twice":          {"issues.*", "push", "destinations.crm.types[1] (line 11)", "is listed twice"},
		"one type":              {"[push, issues.*, v1.invoice.paid, charge.refunded]", "push", "destinations.crm.types (line 11)", "is not a list"},
	} {
		if !strings.Contains(withSelection, tt.old) {
			t.Fatalf("%s: the text has no %q", name, tt.old)
		}
		_, err := loadWith(t, strings.Replace(withSelection, tt.old, tt.text, 1), destinationEnvironment)
		if err == nil || !strings.Contains(err.Error(), tt.key) || !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%s: %v, want %s: %s", name, err, tt.key, tt.problem)
		}
	}
}
