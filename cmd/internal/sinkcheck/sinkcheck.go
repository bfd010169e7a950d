// Package sinkcheck checks the systems that pawl calls before the first customer pays. It checks that they can be
// reached, that they authenticate pawl, and that they do an effect only once per idempotency key.
//
// Its requests are about the account [Account] and have the header Pawl-Check: true. A sink that supports this header
// stores the key as usual, but changes and books nothing.
package sinkcheck

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
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
	// write runs the check with requests that the sink executes. It is nil if pawl has no such requests.
	write func(context.Context) []Finding
}

// Run runs the check.
func (p Plan) Run(ctx context.Context) []Finding { return p.run(ctx) }

// Plans returns the checks of all configured sinks and destinations.
func Plans(c *config.Config) (plans []Plan) {
	client, now := httpcall.NewClient(), time.Now()
	for _, s := range c.Served() {
		switch t := s.Target; {
		case t.HTTP != nil:
			of, known := samples[t.Name]
			if !known {
				plans = append(plans, Plan{Sink: s.Name, run: flowSink(s.Name)})
				continue
			}
			k := keyed{
				name: s.Name, key: t.Key, endpoint: t.HTTP.Modes()[s.Mode].Endpoint, timeout: t.Timeout, client: client,
				request: of.request(s.Mode, now, 0), other: of.request(s.Mode, now, 1), effects: of.effects,
			}
			if of.versions {
				older := of.request(s.Mode, now.Add(-time.Hour), 2)
				k.older = &older
			}
			plans = append(plans, Plan{Sink: s.Name, Stays: of.stays, run: k.check, write: k.write})
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

// flowSink returns the check of a sink that only flows use. Their requests are defined in the configuration, and each
// of them has an effect, so it sends nothing.
func flowSink(name string) func(context.Context) []Finding {
	return func(context.Context) []Finding {
		return []Finding{{Sink: name, Check: "all", Result: Note,
			Found: "pawl sends nothing: only flows use this sink, and pawl has no request for it without an effect",
			Do: "print a request with `pawl flows test`, send it twice with the same Idempotency-Key, and check that " +
				"the second one has no effect"}}
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

// keyed checks an API with idempotency keys.
type keyed struct {
	name, key string // the name of the sink, and its key in the configuration
	endpoint  config.Endpoint
	timeout   time.Duration
	client    *http.Client
	// request is sent first. other is then sent with the same key, and must be rejected.
	request, other activities.Request
	// writes is set if the API executes the requests. older is then a request with an older version, or nil, and
	// effects describes the state of the API afterwards.
	writes  bool
	older   *activities.Request
	effects string
}

// answer is the response to a request.
type answer struct {
	status int
	body   []byte
}

func (k keyed) check(ctx context.Context) (found []Finding) {
	find := func(check, result, what, do string) {
		found = append(found, Finding{Sink: k.name, Check: check, Result: result, Found: what, Do: do})
	}
	key := Account + ":" + rand.Text()
	token := k.endpoint.Token.Value()
	first, err := k.send(ctx, key, token, k.request)
	if err != nil {
		find("reach", Fails, err.Error(), "check "+k.key+".url, the network between, and the certificate")
		return found
	}
	find("reach", OK, "answers", "")
	switch {
	case first.status == http.StatusUnauthorized || first.status == http.StatusForbidden:
		find("token", Fails, fmt.Sprintf("answered %d: it does not accept pawl's credentials", first.status),
			"check "+k.key+".token: effects would wait until it is right")
		return found
	case first.status/100 != 2:
		find("token", Fails, fmt.Sprintf("answered %d to %s %s: such an effect would not be done", first.status,
			k.request.Method, k.request.Path),
			"check the path behind "+k.key+".url, and the accepted requests, against docs/sinks.openapi.yaml")
		return found
	case token == "":
		find("token", Note, "no token is configured, and the sink accepts pawl", "give the sink one with "+k.key+
			".token, unless the network lets only pawl reach it")
	default:
		find("token", OK, fmt.Sprintf("answered %d", first.status), "")
	}
	again, err := k.send(ctx, key, token, k.request)
	switch repeat := "answer a repeated key with the remembered answer, and execute the request once: pawl repeats unanswered requests"; {
	case err != nil:
		find("repeat", Fails, err.Error(), "run the check again")
		return found
	case again.status/100 != 2:
		find("repeat", Fails, fmt.Sprintf("answered %d, and then %d to the same key", first.status, again.status),
			repeat)
	case !bytes.Equal(again.body, first.body) || again.status != first.status:
		find("repeat", Fails, "another answer to the same key: the sink may have executed the request twice", repeat)
	default:
		find("repeat", OK, "the same answer to the same key", "")
	}
	other, err := k.send(ctx, key, token, k.other)
	switch conflict := "answer 409 to a repeated key with another body: it is never the same effect"; {
	case err != nil:
		find("conflict", Fails, err.Error(), "run the check again")
		return found
	case other.status == http.StatusConflict:
		find("conflict", OK, "answered 409 to another body under the key", "")
	default:
		find("conflict", Fails, fmt.Sprintf("answered %d to another body under the key", other.status), conflict)
	}
	if token != "" {
		found = append(found, k.strangers(ctx, key))
	}
	return found
}

// strangers sends the same request with a wrong token. A sink that accepts the token does nothing new, because it
// already knows the key.
func (k keyed) strangers(ctx context.Context, key string) Finding {
	f := Finding{Sink: k.name, Check: "strangers", Result: Note}
	stranger, err := k.send(ctx, key, "no-"+rand.Text(), k.request)
	if err != nil {
		f.Found, f.Do = err.Error(), "run the check again"
		return f
	}
	f.Found = fmt.Sprintf("answered %d to a wrong token", stranger.status)
	if stranger.status/100 == 2 {
		f.Do = "have the API check the token, unless something before it does"
	} else {
		f.Result = OK
	}
	return f
}

func (k keyed) send(ctx context.Context, key, token string, r activities.Request) (answer, error) {
	body, err := json.Marshal(r.Body)
	if err != nil {
		return answer{}, err
	}
	header := map[string]string{"Idempotency-Key": key, "Content-Type": "application/json"}
	maps.Copy(header, r.Header)
	if !k.writes {
		header[Header] = "true"
	}
	if token != "" {
		header["Authorization"] = "Bearer " + token
	}
	return send(ctx, k.client, k.timeout, k.request.Method, k.endpoint.URL+k.request.Path, header, body)
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
