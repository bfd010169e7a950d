// Package sinkcheck checks the systems that pawl calls before the first customer pays. It checks that they can be
// reached, that they authenticate pawl, and that they do an effect only once per idempotency key.
//
// Its requests are about the account [Account] and have the header Pawl-Check: true. A sink that supports this header
// stores the key as usual, but changes and books nothing.
package sinkcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/activities/smtp"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/notice"
)

// Account is the account in all requests of a check.
const Account = "pawl-check"

// Header marks a request that must change nothing.
const Header = "Pawl-Check"

// Finding is the result of one check at one sink.
type Finding struct {
	// Sink is the name of the sink. It ends with ":live" or ":test" if the sink is configured per mode. The name of a
	// destination begins with "destinations:".
	Sink string `json:"sink"`
	// Check is "reach" (the sink responds), "token" (it accepts pawl), "repeat" (the same key twice), "conflict" (a key
	// with another body) or "strangers" (a wrong token). If the sink executes the requests, it is also "concurrent"
	// (the same key many times at once), "late" (an older version) or "effects" (the expected state of the sink).
	Check string `json:"check"`
	// Result is "ok", "fails" for a fault, or "note" if the result is unknown or may be intended.
	Result string `json:"result"`
	// Found describes the behaviour of the sink. Do is the recommended action, or "".
	Found string `json:"found"`
	Do    string `json:"do"`
}

// The results of a check.
const (
	OK    = "ok"
	Fails = "fails"
	Note  = "note"
)

// Plan describes a check that has not run yet.
type Plan struct {
	Sink string
	// Stays describes the data that remains in a sink that ignores the header. It is "" if nothing remains.
	Stays string
	run   func(context.Context) []Finding
	// api is nil if the sink is a mail server, a destination, or a recipient of notifications. It has no request if
	// only flows use the sink.
	api *keyed
}

// Run runs the check.
func (p Plan) Run(ctx context.Context) []Finding { return p.run(ctx) }

// Plans returns the checks of all configured sinks and destinations.
func Plans(c *config.Config) (plans []Plan) {
	client, now := httpcall.NewClient(), time.Now()
	for _, s := range c.Served() {
		switch t := s.Target; {
		case t.HTTP != nil:
			plans = append(plans, planOf(t.Name, s.Mode, now, keyed{
				name: s.Name, key: t.Key, endpoint: t.HTTP.Modes()[s.Mode].Endpoint, timeout: t.Timeout, client: client,
			}))
		case t.Email != nil:
			plans = append(plans,
				Plan{Sink: s.Name, run: mailCheck(s.Name, t.Email.Modes()[s.Mode].MailServer, t.Timeout)})
		case t.Notify != nil:
			plans = append(plans, Plan{Sink: s.Name, Stays: "a message that is a test", run: notifyCheck(c, s, now)})
		default:
			plans = append(plans, Plan{Sink: s.Name, Stays: "an event of type pawl.check",
				run: destinationCheck(client, t, now)})
		}
	}
	return plans
}

// At returns the check of an API that is not configured. name is the name of the sink that it will be.
func At(name string, endpoint config.Endpoint, timeout time.Duration) Plan {
	return planOf(name, string(webhook.Test), time.Now(), keyed{
		name: name, key: "sinks." + name, endpoint: endpoint, timeout: timeout, client: httpcall.NewClient(),
	})
}

// planOf returns the check of an API, with pawl's requests for the name.
func planOf(name, mode string, now time.Time, k keyed) Plan {
	of, known := samples[name]
	if !known {
		return Plan{Sink: k.name, run: flowSink(k.name), api: &k}
	}
	k.request, k.other, k.effects = of.request(mode, now, 0), of.request(mode, now, 1), of.effects
	if of.versions {
		older := of.request(mode, now.Add(-time.Hour), 2)
		k.older = &older
	}
	return Plan{Sink: k.name, Stays: of.stays, run: k.check, api: &k}
}

// flowSink returns the check of a sink that only flows use. Their requests are defined in the configuration, and each
// of them has an effect, so it sends nothing.
func flowSink(name string) func(context.Context) []Finding {
	return func(context.Context) []Finding {
		return []Finding{{Sink: name, Check: "all", Result: Note,
			Found: "pawl sends nothing: only flows use this sink, and pawl has no request for it without an effect",
			Do:    "print a request with `pawl flows test`, and give it to this command with --write, --path and --body"}}
	}
}

// sample is the test request for an API with idempotency keys.
type sample struct {
	// stays describes the data that remains in an API that ignores the header.
	stays string
	// effects describes the state of an API after it has executed the requests.
	effects string
	// versions is set if the requests have versions.
	versions bool
	// request returns a request about [Account]. Requests with different numbers have different bodies.
	request func(mode string, now time.Time, number int64) activities.Request
}

// samples contains a test request for each kind of API, by the name in the configuration.
var samples = map[string]sample{
	"workspaces": {"a workspace " + Account + " that is released",
		"the workspace " + Account + " must be released, with the quantity 0", true,
		func(mode string, now time.Time, number int64) activities.Request {
			// The state released leaves no workspace behind. The version grows with the time, so that
			// a later check is not rejected as outdated.
			return activities.Workspace{
				Account: Account, Mode: mode, State: "released", Features: []string{}, Quantity: number,
				Version: now.Unix(),
			}.Request()
		}},
	"finance": {"an entry of 0 for account " + Account,
		"exactly two new entries of 0 must exist for account " + Account, false,
		func(mode string, now time.Time, number int64) activities.Request {
			return activities.Entry{
				Kind: activities.PaymentEntry, Mode: mode, Account: Account, Object: Account, Tax: number,
				Currency:   "usd",
				OccurredAt: now.UTC().Truncate(time.Second),
			}.Request()
		}},
}

// send sends one request. Its error contains only the host of the URL.
func send(ctx context.Context, client *http.Client, timeout time.Duration, method, to string, header map[string]string,
	body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return answer{}, errors.New("the URL is invalid")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s", timeout)
		}
		return answer{}, fmt.Errorf("%s: %w", req.URL.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return answer{resp.StatusCode, said}, err
}

func mailCheck(name string, m config.MailServer, timeout time.Duration) func(context.Context) []Finding {
	return func(ctx context.Context) []Finding {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		mailer := &smtp.Client{Address: m.Address, TLS: smtp.TLSMode(m.TLS), Username: m.Username,
			Password: m.Password.Value()}
		if err := mailer.Check(ctx, m.From); err != nil {
			return []Finding{{Sink: name, Check: "reach", Result: Fails, Found: err.Error(),
				Do: "check address, tls, username, password and from of sinks.email"}}
		}
		as := "takes " + m.From + " as the sender, without a password"
		if m.Username != "" {
			as = "lets " + m.Username + " in, and takes " + m.From + " as the sender"
		}
		return []Finding{{Sink: name, Check: "reach", Result: OK, Found: as + "; no mail was sent"}}
	}
}

func notifyCheck(c *config.Config, s config.Served, now time.Time) func(context.Context) []Finding {
	test := notice.Message{Key: "notice:" + Account + ":" + now.UTC().Format(time.RFC3339Nano), At: now.UTC(),
		Condition: notice.Condition{Name: Account, Severity: notice.Ticket, Since: now.UTC(),
			Message: "a test: pawl sends you notifications here", Command: "status", Runbook: "notifications"}}
	return func(ctx context.Context) []Finding {
		ctx, cancel := context.WithTimeout(ctx, s.Target.Timeout)
		defer cancel()
		sinks := process.NotifySinks(c)
		i := slices.IndexFunc(sinks, func(n process.NotifySink) bool { return n.Name == s.Name })
		if err := sinks[i].Tell(ctx, test); err != nil {
			return []Finding{{Sink: s.Name, Check: "reach", Result: Fails, Found: err.Error(),
				Do: "check " + s.Target.Key + ", and the network between"}}
		}
		return []Finding{{Sink: s.Name, Check: "reach", Result: OK, Found: "took a test message"}}
	}
}

// destinationCheck sends one test event for each form of event that the destination receives.
func destinationCheck(client *http.Client, t config.Target, now time.Time) func(context.Context) []Finding {
	d := t.Destination
	relayed := map[string]string{"Pawl-Account": Account, "Pawl-Event-Type": "pawl.check", "Pawl-Mode": "test"}
	own := map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": uuidOf(now), "Ce-Source": "/pawl/test", "Ce-Type": "pawl.check",
		"Ce-Subject": Account, "Ce-Time": now.UTC().Format(time.RFC3339),
	}
	check := func(kind map[string]string, id, body string) func(context.Context) []Finding {
		return taken(client, t, func() (map[string]string, []byte) {
			header := httpcall.Header("", d.Token.Value())
			if len(d.Secrets) > 0 {
				httpcall.SignStandard(header, d.Keys(), id, time.Now(), []byte(body))
			}
			sent := map[string]string{}
			for key := range header {
				sent[key] = header.Get(key)
			}
			maps.Copy(sent, kind)
			sent[Header] = "true"
			return sent, []byte(body)
		})
	}
	return func(ctx context.Context) (found []Finding) {
		if len(d.Sources) > 0 {
			found = check(relayed, Account+"_"+strconv.FormatInt(now.UnixNano(), 36),
				`{"type":"pawl.check","account":"`+Account+`"}`)(ctx)
		}
		if len(d.Events) > 0 {
			found = append(found, check(own, own["Ce-Id"], `{"account":"`+Account+`","mode":"test"}`)(ctx)...)
		}
		return found
	}
}

// taken checks a receiver that ignores repeated event IDs. It sends an event twice. It can only check that both
// requests get a 2xx.
func taken(client *http.Client, t config.Target, fresh func() (map[string]string, []byte)) func(
	context.Context) []Finding {
	where := t.Key + ".url"
	do := map[string]string{"reach": "check " + where + ", and answer 2xx to types that are not known",
		"repeat": "answer 2xx to a repeat, too, and drop it by its ID"}
	return func(ctx context.Context) (found []Finding) {
		find := func(check, result, what, do string) {
			found = append(found, Finding{Sink: t.Name, Check: check, Result: result, Found: what, Do: do})
		}
		for _, check := range []string{"reach", "repeat"} {
			header, body := fresh()
			got, err := send(ctx, client, t.Timeout, http.MethodPost, t.Destination.URL, header, body)
			switch {
			case err != nil:
				find(check, Fails, err.Error(), "check "+where)
				return found
			case got.status == http.StatusUnauthorized || got.status == http.StatusForbidden:
				find(check, Fails, fmt.Sprintf("answered %d: it does not accept pawl's credentials", got.status),
					"check its secrets and its token")
				return found
			case got.status/100 != 2:
				find(check, Fails, fmt.Sprintf("answered %d: no event would be accepted", got.status), do[check])
				return found
			}
			find(check, OK, fmt.Sprintf("answered %d", got.status), "")
		}
		return found
	}
}

// uuidOf returns an event ID that contains the time of the check.
func uuidOf(now time.Time) string {
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", now.UnixMilli()&0xffffffffffff)
}
