package cli

import (
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/gitlab"
	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/twilio"
	"github.com/pawlhq/pawl/ingress/webhook"
)

func TestMain(m *testing.M) { commandtest.Main(m) }

// program returns the commands of operators with some providers.
func program() command.Program {
	providers := map[string]webhook.Provider{}
	for _, p := range []webhook.Provider{github.Provider, gitlab.Provider, hmac.Provider, stripe.Provider, twilio.Provider} {
		providers[p.Name] = p
	}
	return command.Program{Providers: providers, Commands: Commands}
}

// setup writes a configuration with one source per provider name, for the database at dsn.
func setup(t *testing.T, dsn string, sources map[string]string) commandtest.Stack {
	t.Helper()
	return commandtest.New(t, program(), dsn, sources)
}
