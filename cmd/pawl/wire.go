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
		a.doctor(),
		a.status(),
		group("events", "The events that were received", append([]*cobra.Command{a.eventsList(), a.eventsShow(), a.eventsBody()}, a.eventVerbs()...)...),
		group("jobs", "The bulk jobs: one decision about many events", a.jobsList(), a.jobsShow(), a.jobsPause(), a.jobsResume(), a.jobsCancel()),
		group("accounts", "The accounts and what they may use", a.accountsShow(), a.accountsHold(), a.accountsRelease()),
		a.rebuild(),
		group("tasks", "What a person has to do", a.tasksList(), a.tasksClose()),
		group("rejections", "The requests that were refused", a.rejectionsList(), a.rejectionsShow(), a.rejectionsAdmit()),
		group("audit", "The trail of what operators did", a.auditList(), a.auditVerify()),
		a.sources(),
		a.sinks(),
		a.pauses("pause", "Let what a sink, a consumer or a source is for wait", pauseLong),
		a.pauses("resume", "Let what was paused go on", resumeLong),
		a.gaps(),
		a.reconcile(),
		a.providers(),
		group("import", "What a provider holds already", a.importStripe()),
		a.send(),
		a.verify(),
		a.version(),
		group("bench", "Measure pawl on this machine", a.benchFlow(), a.benchAccept(), a.benchBacklog(), a.benchOutage(), a.benchServe()),
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
