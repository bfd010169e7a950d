package main

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// keys returns what a source of the provider is configured with, and what its provider signs with.
func keys(t *testing.T, provider string) (verify, sign string, options map[string]string) {
	t.Helper()
	sample := providers()[provider].Sample
	k, err := sample.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	return k.Verify, k.Sign, sample.Options
}

// delivered is what a source gets when the event is sent to it.
func delivered(t *testing.T, to forge.Target, event forge.Event) *webhook.Request {
	t.Helper()
	req, err := to.Request(t.Context(), event, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Method: http.MethodPost, URL: req.URL.String(), Header: req.Header, Body: body, ReceivedAt: time.Now()}
}

// What is sent for a type is an event of that type and no other, and nothing in it disagrees.
func TestForge_TypesGiven_AreTheEventsTypes(t *testing.T) {
	t.Parallel()
	for name, types := range map[string][]string{
		"github": {
			"issues.opened", "issues.closed", "issue_comment.created", "push", "ping", "pull_request.synchronize", "pull_request_review.submitted",
			"pull_request_review_comment.created", "pull_request_review_thread.resolved", "commit_comment.created", "discussion.created",
			"discussion_comment.created", "create", "delete", "fork", "status", "release.published", "installation.created",
			"installation_repositories.added", "check_run.completed", "check_suite.completed", "deployment.created",
			"deployment_status.created", "workflow_job.queued", "member.added", "label.created", "milestone.created", "marketplace_purchase.purchased",
			"security_advisory.published", "sponsorship.created", "star.created",
		},
		"stripe":  {forge.ThinType, "v2.core.account.updated"},
		"shopify": {"orders/paid", "products/update", "customers/create", "refunds/create", "customers/redact", "app/uninstalled"},
		"linear":  {"Issue.create", "Comment.update"},
		"adyen":   {"AUTHORISATION", "REFUND", "balancePlatform.transfer.updated"},
		"meta":    {"page.feed", "whatsapp_business_account.messages"},
		"twilio":  {"message.delivered", "call.completed"},
	} {
		provider := providers()[name]
		verify, sign, options := keys(t, name)
		const url = "https://pawl.test/hooks/source"
		verifier, err := provider.New(webhook.Settings{Source: "source", URL: url, Options: options, Secrets: []webhook.Secret{{Label: "a", Value: verify}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range types {
			event, err := forge.New(forge.Params{Provider: provider, Type: typ}, "")
			if err != nil {
				t.Errorf("%s %s: %v", name, typ, err)
				continue
			}
			events := verifier.Events(delivered(t, forge.Target{URL: url, Secret: sign, Options: options, Sign: provider.Sign}, event))
			if len(events) != 1 || events[0].Type != typ || events[0].Problem != "" {
				t.Errorf("%s %s: events = %+v, want one of that type without a problem", name, typ, events)
			}
		}
	}
}

// What an option of its source asks for is made without a type.
func TestForge_NoType_FitsTheOptions(t *testing.T) {
	t.Parallel()
	asked := 0
	for name, p := range providers() {
		for option, typ := range p.Sample.TypeWith {
			asked++
			verify, sign, options := keys(t, name)
			options = maps.Clone(options)
			if options == nil {
				options = map[string]string{}
			}
			key, value, _ := strings.Cut(option, "=")
			options[key] = value
			verifier, err := p.New(webhook.Settings{Source: "source", Options: options, Secrets: []webhook.Secret{{Label: "a", Value: verify}}})
			if err != nil {
				t.Fatal(err)
			}
			event, err := forge.New(forge.Params{Provider: p, Options: options}, "")
			if err != nil {
				t.Fatal(err)
			}
			r := delivered(t, forge.Target{URL: "https://pawl.test", Secret: sign, Options: options, Sign: p.Sign}, event)
			if _, err := verifier.Verify(r); err != nil {
				t.Errorf("%s with %v: %v", name, options, err)
			}
			if events := verifier.Events(r); len(events) != 1 || events[0].Type != typ || events[0].Object == "" || events[0].Problem != "" {
				t.Errorf("%s with %v: events = %+v, want one of type %s with an object and without a problem", name, options, events, typ)
			}
		}
	}
	if asked < 2 {
		t.Errorf("%d options ask for a type, want those of Stripe and Adyen at least", asked)
	}
}

// A source that takes some accounts only can be sent an event of one of them.
func TestForge_ConnectedAccount_IsTheEventsAccount(t *testing.T) {
	t.Parallel()
	for name, provider := range providers() {
		if provider.Contract.Generic || provider.Contract.Account == "" {
			continue
		}
		verify, sign, options := keys(t, name)
		const url, account = "https://pawl.test/hooks/source", "acct_7"
		verifier, err := provider.New(webhook.Settings{Source: "source", URL: url, Options: options, Secrets: []webhook.Secret{{Label: "a", Value: verify}}})
		if err != nil {
			t.Fatal(err)
		}
		event, err := forge.New(forge.Params{Provider: provider, ConnectedAccount: account}, "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := delivered(t, forge.Target{URL: url, Secret: sign, Options: options, Sign: provider.Sign}, event)
		if events := verifier.Events(r); len(events) != 1 || events[0].Account != account || events[0].Problem != "" {
			t.Errorf("%s: events = %+v, want one of %s", name, events, account)
		}
	}
}

// What is forged for a provider is admitted by that provider's verifier, is one readable event, and
// is the same event when it is sent again.
func TestForge_EveryProvider_AdmittedAndDeduped(t *testing.T) {
	t.Parallel()
	for name, provider := range providers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verify, sign, options := keys(t, name)
			const url = "https://pawl.test/hooks/source"
			verifier, err := provider.New(webhook.Settings{
				Source: "source", URL: url, Options: options,
				Secrets: []webhook.Secret{{Label: "a", Value: verify}},
			})
			if err != nil {
				t.Fatal(err)
			}
			target := forge.Target{URL: url, Secret: sign, Options: options, Sign: provider.Sign}
			event, err := forge.New(forge.Params{Provider: provider}, "")
			if err != nil {
				t.Fatal(err)
			}
			if event.ID == "" || event.Type == "" || len(event.Body) == 0 || event.ContentType == "" {
				t.Errorf("event %q of type %q, %d bytes of %q; want all", event.ID, event.Type, len(event.Body), event.ContentType)
			}
			var first string
			for range 2 {
				r := delivered(t, target, event)
				if _, err := verifier.Verify(r); err != nil {
					t.Fatalf("refused: %v\n%s", err, r.Body)
				}
				events := verifier.Events(r)
				if len(events) != 1 || events[0].Problem != "" || events[0].ID == "" {
					t.Fatalf("events = %+v, want one without a problem", events)
				}
				if first != "" && events[0].ID != first {
					t.Errorf("sent again, the event has ID %s, and had %s", events[0].ID, first)
				}
				first = events[0].ID
				if events[0].Type == "" {
					t.Errorf("the event has no type: %s", r.Body)
				}
			}
		})
	}
}
