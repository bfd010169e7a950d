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
	case "WEAK":
		return "whsec_c2hvcnQ=", true
	}
	return environment(key)
}

func TestLoad_Consumers(t *testing.T) {
	t.Parallel()
	cfg, err := loadWith(t, withConsumers("[crm]", "  crm: {url: 'https://crm.example.com/in', secret: env:CRM}\n"), consumerEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	crm := cfg.Consumers["crm"]
	if string(crm.Key()) != "0123456789abcdef0123456789abcdef" || crm.Timeout == 0 || crm.Effects != "local" {
		t.Errorf("consumer %+v, want its key decoded and the defaults", crm)
	}
	if got := cfg.Sources["stripe"].Relay; len(got) != 1 || got[0] != "crm" {
		t.Errorf("relay %v", got)
	}
}

func TestLoad_Consumers_Faults(t *testing.T) {
	t.Parallel()
	_, err := loadWith(t, withConsumers("[crm, crm, nobody]", "  crm: {secret: env:WEAK, effects: twice}\n  Bad Name: {url: 'ftp://x', secret: env:STRIPE}\n  none: {url: 'https://x.example'}\n"), consumerEnvironment)
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("got %v, want faults", err)
	}
	for _, key := range []string{
		"consumers.crm.url", "consumers.crm.secret", "consumers.crm.effects", "consumers.Bad Name", "consumers.Bad Name.url",
		"consumers.none.secret", "sources.stripe.relay[1]", "sources.stripe.relay[2]",
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
