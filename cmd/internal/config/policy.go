package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/activities/letters"
)

// Policy contains the billing decisions that you can configure.
type Policy struct {
	// PastDueGrace is how long a past-due subscription still grants access. Stripe retries for two weeks.
	PastDueGrace time.Duration `yaml:"past_due_grace" default:"21d" min:"0s" zero:"counts"`
	// AccessEndingNotice is how long before the end of the grace period the customer is informed.
	AccessEndingNotice time.Duration `yaml:"access_ending_notice" default:"3d" min:"0s" zero:"counts"`
	// RenewalGrace is how long after the end of a period the next invoice may be paid.
	RenewalGrace time.Duration `yaml:"renewal_grace" default:"4d" min:"0s" zero:"counts"`
	// OnSubscriptionEnd defines until when an ended subscription grants access.
	OnSubscriptionEnd string `yaml:"on_subscription_end" default:"at_once" oneof:"at_once period_end"`
	// OnWorkflowCancel defines the effect of a cancellation in Temporal.
	OnWorkflowCancel string `yaml:"on_workflow_cancel" default:"park" oneof:"park compensate"`
	// ZeroInvoices defines whether finance gets entries of 0.
	ZeroInvoices string `yaml:"zero_invoices" default:"ignore" oneof:"ignore book"`
	// FullRefund defines the access after a full refund of the newest paid invoice.
	FullRefund string `yaml:"full_refund" default:"keep" oneof:"keep end"`
	// Dispute defines the access while a dispute is open.
	Dispute string `yaml:"dispute" default:"keep" oneof:"keep hold"`
	// DisputeLost defines the access after a lost dispute.
	DisputeLost string `yaml:"dispute_lost" default:"keep" oneof:"keep end"`
	// GrantPlanOn defines when a higher plan or more seats are granted.
	GrantPlanOn string `yaml:"grant_plan_on" default:"change" oneof:"change payment"`
	// OnUnknownPrice defines the handling of an unmapped price or connected account, and of an unknown currency.
	OnUnknownPrice string `yaml:"on_unknown_price" default:"open_task" oneof:"open_task ignore"`
	// Dunning lists the times of the reminders after the first failed attempt.
	Dunning []time.Duration `yaml:"dunning" default:"0s 3d 7d 14d" min:"0s"`
	// AccountFrom defines whether a Stripe customer without a named account becomes an account at once, or after
	// SubscriptionWait.
	AccountFrom string `yaml:"account_from" default:"named" oneof:"named customer"`
	// DunningMinInterval is the minimum time between a failed attempt and a reminder.
	DunningMinInterval time.Duration `yaml:"dunning_min_interval" default:"1d" min:"0s" zero:"counts"`
	// SubscriptionWait is how long a paid invoice may be the only evidence of a subscription.
	SubscriptionWait time.Duration `yaml:"subscription_wait" default:"10m" min:"0s" zero:"counts"`
	// WorkspaceRetention is how long the workspace of an account without access is kept.
	WorkspaceRetention time.Duration `yaml:"workspace_retention" default:"30d" min:"0s" zero:"counts"`
	// AutoApply is the maximum number of affected accounts up to which pawl automatically applies new billing rules
	// that only add to the active ones.
	AutoApply int `yaml:"auto_apply" default:"20" min:"0" zero:"counts"`
	// Reconcile is the period in which each account is compared once with the provider's data; 0 disables it.
	Reconcile time.Duration `yaml:"reconcile" default:"7d" min:"0s" zero:"counts"`
	// Backfill defines the hourly handling of missing events.
	Backfill string `yaml:"backfill" default:"auto" oneof:"auto report off"`
	// Endpoint defines whether the webhook endpoints of the sources are monitored at their providers.
	Endpoint string `yaml:"endpoint" default:"watch" oneof:"watch off"`
	// FourEyes requires two people for decisions about live money.
	FourEyes bool `yaml:"four_eyes"`
	// Emails defines who sends each kind of e-mail.
	Emails EmailSenders `yaml:"emails"`
}

// EmailSenders selects the sender for each kind of e-mail: pawl, or Stripe, which can send its own.
type EmailSenders struct {
	Receipt string `yaml:"receipt" default:"pawl" oneof:"pawl stripe"`
	Dunning string `yaml:"dunning" default:"pawl" oneof:"pawl stripe"`
	Trial   string `yaml:"trial" default:"pawl" oneof:"pawl stripe"`
}

// off lists the e-mails that Stripe sends.
func (w EmailSenders) off() (off []string) {
	for _, kind := range []struct {
		who   string
		names []string
	}{
		{w.Receipt, []string{letters.Receipt}}, {w.Dunning, []string{letters.ActionRequired, letters.Dunning}},
		{w.Trial, []string{letters.TrialEnding}},
	} {
		if kind.who == "stripe" {
			off = append(off, kind.names...)
		}
	}
	return off
}

const day = 24 * time.Hour

// Thin reports whether the source's endpoint is registered for Stripe's thin events.
func (s Source) Thin() bool { return s.Provider == billing && s.Options["payload"] == "thin" }

// Watches reports whether pawl watches the endpoint of a source.
func (c *Config) Watches(source string) bool {
	return c.Policy.Endpoint == "watch" && c.Sources[source].APIKey.Value() != ""
}

// check checks the order of the dunning steps, that Reconcile is a number of whole days, and that no setting bypasses
// the rule of two people.
func (p *Policy) check(c *checker, _ string) {
	if every := p.Reconcile; every%day != 0 {
		c.bad("policy.reconcile", "is not a number of whole days", "write 7d, or 0s for never")
	}
	if p.FourEyes && p.OnWorkflowCancel == "compensate" {
		c.bad("policy.on_workflow_cancel", "lets one person compensate live money by a cancellation in Temporal, but policy.four_eyes requires two people",
			"write park")
	}
	steps := p.Dunning
	for i := 1; i < len(steps); i++ {
		if steps[i] <= steps[i-1] {
			c.bad(fmt.Sprintf("policy.dunning[%d]", i), "is not later than the previous step",
				"list the steps in ascending order, each once")
		}
	}
}

// Retention sets how long rows are kept that pawl does not need forever. 0 keeps them forever.
type Retention struct {
	// Payloads is how long the payload of an event is kept. The payload of an unfinished event is always kept.
	Payloads time.Duration `yaml:"payloads" default:"90d" min:"0s" zero:"counts"`
	// Redeliveries is how long the repeated deliveries of an event are listed.
	Redeliveries time.Duration `yaml:"redeliveries" default:"90d" min:"0s" zero:"counts"`
	// Runs is how long attempts, runs and interventions in Temporal are kept after their end.
	Runs time.Duration `yaml:"runs" default:"400d" min:"0s" zero:"counts"`
	// PublishedEvents is how long an event of the outbox is kept after its publication.
	PublishedEvents time.Duration `yaml:"published_events" default:"30d" min:"0s" zero:"counts"`
	// Jobs is how long a bulk job is kept after its end.
	Jobs time.Duration `yaml:"jobs" default:"90d" min:"0s" zero:"counts"`
	// Disk is the size of the database's disk. pawl then computes when the disk is full.
	Disk DiskSize `yaml:"disk"`
}

// DiskSize is the size of a disk, written like [Bytes].
type DiskSize int64

// UnmarshalText parses "500GiB" or "1000GB".
func (s *DiskSize) UnmarshalText(text []byte) error {
	if err := (*Bytes)(s).UnmarshalText(text); err != nil {
		return errors.New("write a size such as 500GiB or 1000GB")
	}
	return nil
}

// check rejects a duration that would delete rows that pawl still needs.
func (r Retention) check(c *checker, key string) {
	for _, least := range []struct {
		name     string
		set, min time.Duration
		text     string
		why      string
	}{
		// Package retention keeps each payload for 14 days after the end of its event. A suspected replay may share the
		// payload of another event for half of this time.
		{"payloads", r.Payloads, 14 * day, "14d", "suspected replays, and people who repair events, need payloads"},
		{"redeliveries", r.Redeliveries, day, "1d", "pawl counts recent deliveries to detect an event that the provider sends again and again"},
		{"runs", r.Runs, 30 * day, "30d", "Temporal keeps closed runs for about a month, and a person can reset them"},
		{"published_events", r.PublishedEvents, day, "1d", "the timeline of an event needs time to be read"},
		{"jobs", r.Jobs, day, "1d", "the outcome of a job needs time to be read"},
	} {
		if least.set != 0 && least.set < least.min {
			c.bad(key+"."+least.name, "is shorter than "+least.text+": "+least.why,
				"write "+least.text+" or more, or 0 for never")
		}
	}
}
