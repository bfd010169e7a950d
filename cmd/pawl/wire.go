package main

import (
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/ingress/adyen"
	"github.com/pawlhq/pawl/ingress/discord"
	"github.com/pawlhq/pawl/ingress/gethook"
	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/gitlab"
	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/linear"
	"github.com/pawlhq/pawl/ingress/paddle"
	"github.com/pawlhq/pawl/ingress/paypal"
	"github.com/pawlhq/pawl/ingress/sendgrid"
	"github.com/pawlhq/pawl/ingress/shopify"
	"github.com/pawlhq/pawl/ingress/slack"
	"github.com/pawlhq/pawl/ingress/square"
	"github.com/pawlhq/pawl/ingress/standardwebhooks"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/twilio"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/zendesk"
	"github.com/pawlhq/pawl/workflows"
)

// This file is the only list of commands and providers: what is not here does not run. The flows are listed in
// workflows, and what runs their effects in cmd/internal/process.

func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.init(),
		a.dev(),
		a.ingress(),
		a.worker(),
		group("config", "The configuration", a.configCheck()),
		a.migrate(),
		a.ready(),
		group("events", "The events that were received", a.eventsList(), a.eventsShow(), a.eventsRun(),
			a.decide(workflows.UpdateRetry, "Let a parked run try again what is not done"),
			a.decide(workflows.UpdateSkip, "Let a parked run go on without what is not done"),
			a.decide(workflows.UpdateCompensate, "Let a parked run take back what was done"),
		),
		group("accounts", "The accounts and what they may use", a.accountsShow()),
		a.rebuild(),
		group("tasks", "What a person has to do", a.tasksList(), a.tasksClose()),
		group("rejections", "The requests that were refused", a.rejectionsList(), a.rejectionsShow(), a.rejectionsAdmit()),
		group("audit", "The trail of what operators did", a.auditVerify()),
		a.sources(),
		a.sinks(),
		a.providers(),
		group("import", "What a provider holds already", a.importStripe()),
		a.send(),
		a.verify(),
		a.version(),
		group("bench", "Measure pawl on this machine", a.benchFlow(), a.benchAccept(), a.benchOutage(), a.benchServe()),
	}
}

// providers maps each provider's name to it.
func providers() map[string]webhook.Provider {
	all := map[string]webhook.Provider{}
	for _, p := range []webhook.Provider{
		adyen.Provider,
		discord.Provider,
		gethook.Provider,
		github.Provider,
		gitlab.Provider,
		hmac.Provider,
		hmac.Calendly,
		hmac.Intercom,
		hmac.Meta,
		hmac.Typeform,
		hmac.WooCommerce,
		hmac.Zoom,
		linear.Provider,
		paddle.Provider,
		paypal.Provider,
		sendgrid.Provider,
		shopify.Provider,
		slack.Provider,
		square.Provider,
		standardwebhooks.Provider,
		standardwebhooks.Svix,
		stripe.Provider,
		twilio.Provider,
		zendesk.Provider,
	} {
		all[p.Name] = p
	}
	return all
}
