package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

func withConsumers(relay, consumers string) string {
	return strings.Replace(valid, "    provider: stripe\n", "    provider: stripe\n    relay: "+relay+"\n", 1) + "consumers:\n" + consumers
}

// environment's STRIPE is a text that is no base64; a consumer's secret has to be.
func consumerEnvironment(key string) (string, bool) {
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

func TestLoad_Consumers(t *testing.T) {
	t.Parallel()
	cfg, err := loadWith(t, withConsumers("[crm]", "  crm: {url: 'https://crm.example.com/in', secrets: [{value: env:CRM}, {value: env:NEXT}]}\n"), consumerEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	crm := cfg.Consumers["crm"]
	if keys := crm.Keys(); len(keys) != 2 || string(keys[0]) != "0123456789abcdef0123456789abcdef" || string(keys[1]) != "fedcba9876543210fedcba9876543210" || crm.Timeout == 0 || crm.Effects != "local" {
		t.Errorf("consumer %+v, want its keys decoded and the defaults", crm)
	}
	if got := cfg.Sources["stripe"].Relay; len(got) != 1 || got[0] != "crm" {
		t.Errorf("relay %v", got)
	}
}

func TestLoad_Consumers_Faults(t *testing.T) {
	t.Parallel()
	_, err := loadWith(t, withConsumers("[crm, crm, nobody]", "  crm: {secrets: [{value: env:CRM}, {value: env:WEAK}, {}], effects: twice}\n  Bad Name: {url: 'ftp://x', secrets: [{value: env:STRIPE}]}\n  new: {url: 'https://x.example', secrets: [{value: env:STANDIN}]}\n  none: {url: 'https://x.example'}\n"), consumerEnvironment)
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("got %v, want faults", err)
	}
	for _, key := range []string{
		"consumers.crm.url", "consumers.crm.secrets[1].value", "consumers.crm.secrets[2].value", "consumers.crm.effects", "consumers.Bad Name", "consumers.Bad Name.url",
		"consumers.none.secrets", "consumers.new.secrets[0].value", "sources.stripe.relay[1]", "sources.stripe.relay[2]",
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
