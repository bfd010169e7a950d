package config

import (
	"fmt"
	"net/mail"
	"net/url"
	"strings"
	"time"
	_ "time/tzdata" // quiet hours have a time zone, and the container image contains none

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Notify configures the notifications to operators.
type Notify struct {
	Sinks map[string]NotifySink `yaml:"sinks"`
	Quiet Quiet                 `yaml:"quiet"`
	// Heartbeat is a URL that each process calls while it works. {process} is replaced by ingress or worker.
	Heartbeat Ref `yaml:"heartbeat"`
	// Financial lists event types that involve money: a type, or a prefix ("invoice.*").
	Financial []string `yaml:"financial" default:"charge.* checkout.* credit_note.* invoice.* payment_intent.* refund.*"`
	// Runbooks is the base URL of docs/operations.
	Runbooks string `yaml:"runbooks" default:"https://github.com/pawlhq/pawl/blob/main/docs/operations" form:"url"`
}

// FinancialLike returns the types of Financial as patterns for SQL's like.
func (n *Notify) FinancialLike() []string {
	patterns := []string{}
	for _, pattern := range n.Financial {
		patterns = append(patterns, strings.ReplaceAll(strings.ReplaceAll(pattern, "_", `\_`), "*", "%"))
	}
	return patterns
}

// NotifySink is a recipient of notifications.
type NotifySink struct {
	// Kind is "slack", "webhook" or "email".
	Kind string `yaml:"kind" oneof:"slack webhook email"`
	// Only is "pages" for a sink that gets only pages.
	Only string `yaml:"only" oneof:"pages"`
	// URL is a reference, because anybody who knows a Slack webhook's URL can post to it. Token is sent as a bearer
	// token.
	URL   Ref `yaml:"url"`
	Token Ref `yaml:"token"`
	// To is the recipient's address.
	To         string `yaml:"to"`
	MailServer `yaml:",inline"`
	// Timeout bounds one attempt.
	Timeout time.Duration `yaml:"timeout" default:"10s" min:"0s"`
	Retries Retries       `yaml:"retries"`
	Owner   string        `yaml:"owner"`
}

// Kinds of a [NotifySink].
const (
	NotifySlack   = "slack"
	NotifyWebhook = "webhook"
	NotifyEmail   = "email"
)

// NotifyPrefix is the prefix of a notification sink's name.
const NotifyPrefix = "notify:"

func (s NotifySink) target(name string) Target {
	with := "its URL is set"
	if s.Kind == NotifyEmail {
		with = "it mails to " + s.To
	}
	return Target{
		Name: NotifyPrefix + name, Key: "notify.sinks." + name,
		// With one slot, notifications are sent one after another.
		Sending:     Sending{Timeout: s.Timeout, Retries: s.Retries, Bounds: Bounds{MaxConcurrency: 1}, Owner: s.Owner},
		Credentials: map[string]string{string(webhook.Live): with, string(webhook.Test): with}, Notify: &s,
	}
}

// Quiet are the hours of each day in which only pages are sent.
type Quiet struct {
	From string `yaml:"from"`
	To   string `yaml:"to"`
	Zone string `yaml:"zone" default:"UTC"`
}

// At reports whether t is within the quiet hours.
func (q Quiet) At(t time.Time) bool {
	zone, err := time.LoadLocation(q.Zone)
	if err != nil || q.From == "" {
		return false
	}
	switch clock := t.In(zone).Format("15:04"); {
	case q.From <= q.To:
		return q.From <= clock && clock < q.To
	default:
		return q.From <= clock || clock < q.To
	}
}

func (s *NotifySink) check(c *checker, key string) {
	if !sourceName.MatchString(strings.TrimPrefix(key, "notify.sinks.")) {
		c.bad(key, "is not a valid sink name", "use lower-case letters, digits, - and _")
	}
	s.Retries.check(c, key, 0)
	switch {
	case s.Kind == "":
		c.bad(key+".kind", "is missing", "write slack, webhook or email")
	case s.Kind == NotifyEmail:
		s.MailServer.check(c, key)
		if _, err := mail.ParseAddress(s.To); err != nil {
			c.bad(key+".to", fmt.Sprintf("%q is not an address", s.To), "write the recipient: on-call@example.com")
		}
	case s.URL.from == "":
		c.bad(key+".url", "is missing", fixRef)
	default:
		s.URL.checkURL(c, key+".url")
		c.inClear(key, s.URL.Value(), s.Token)
	}
}

func (n *Notify) check(c *checker, _ string) {
	n.Heartbeat.checkURL(c, "notify.heartbeat")
	if v := n.Heartbeat.Value(); v != "" && !strings.Contains(v, "{process}") {
		c.warn("notify.heartbeat", "does not contain {process}: while one process calls the URL, the monitoring service cannot detect that the other has failed",
			"add {process} to the URL, and monitor the URLs of ingress and worker")
	}
}

// checkURL checks a URL that the file contains by reference, without repeating it.
func (r Ref) checkURL(c *checker, key string) {
	u, err := url.Parse(r.Value())
	if r.Value() != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		c.bad(key, "does not refer to an http or https URL", "set "+r.String()+" to a complete URL: https://host/path")
	}
}

func (q Quiet) check(c *checker, _ string) {
	for name, at := range map[string]string{"from": q.From, "to": q.To} {
		if _, err := time.Parse("15:04", at); (q.From != "" || q.To != "") && (err != nil || len(at) != len("15:04")) {
			c.bad("notify.quiet."+name, fmt.Sprintf("%q is not a time of day", at), `write "22:00"`)
		}
	}
	if _, err := time.LoadLocation(q.Zone); err != nil {
		c.bad("notify.quiet.zone", fmt.Sprintf("%q is not a time zone", q.Zone), "write a name such as Europe/Berlin")
	}
}
