package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// The names of the services in journals and faults.
const (
	email      = "email"
	workspaces = "workspaces"
	finance    = "finance"
	events     = "events"
	relayed    = "relayed"
	// flowSinks are the sinks of flows: any path below /sinks/NAME.
	flowSinks     = "sinks"
	notifications = "notifications"
)

var services = []string{email, workspaces, finance, flowSinks, events, relayed, notifications}

// faultable lists the services that accept faults.
var faultable = append(slices.Clone(services), stripe)

// mode is the behaviour of a fault.
type mode string

const (
	modeStatus            mode = "status"
	modeStatusAfterAccept mode = "status_after_accept"
	modeLatency           mode = "latency"
	modeDropBeforeAccept  mode = "drop_before_accept"
	modeDropAfterAccept   mode = "drop_after_accept"
	modeHangAfterAccept   mode = "hang_after_accept"
	modeStale             mode = "stale"
	modeMissing           mode = "missing"
	modeUnsettled         mode = "unsettled"
)

var modes = []mode{modeStatus, modeStatusAfterAccept, modeLatency, modeDropBeforeAccept, modeDropAfterAccept,
	modeHangAfterAccept, modeStale, modeMissing, modeUnsettled}

// stage is a point of an SMTP transaction.
type stage string

const (
	stageMail stage = "mail"
	stageRcpt stage = "rcpt"
	stageData stage = "data"
)

// The limits of a fault, so that a typing mistake does not block a sandbox for good.
const (
	maxNext      = 1_000_000
	maxLatencyMS = 10 * 60 * 1000
)

// fault describes the failure of the next requests of a service; docs/sandbox.md explains its fields. The zero value
// means no fault. An email is accepted at stage data. By default drop_before_accept closes the connection before that
// stage; with smtp set to data, in the middle of the message. A latency delays the answer 250.
type fault struct {
	Service    string `json:"service"`
	Next       int    `json:"next"`
	Mode       mode   `json:"mode,omitempty"`
	Status     int    `json:"status,omitempty"`
	RetryAfter int    `json:"retry_after,omitempty"`
	LatencyMS  int    `json:"latency_ms,omitempty"`
	SMTP       stage  `json:"smtp,omitempty"`
	// Account limits the fault to the workspace or the entries of one account. Empty means all accounts.
	Account string `json:"account,omitempty"`
	// Plan limits the fault to workspaces with this plan, or with plan:seats. Empty means any plan.
	Plan string `json:"plan,omitempty"`
	// Path limits the fault to one list of the Stripe API, for example charges, or to one sink of flows and the
	// beginning of a path there, for example stock:reservations. Empty means any path.
	Path          string `json:"path,omitempty"`
	IgnoreVersion bool   `json:"ignore_version,omitempty"`
}

func (f fault) latency() time.Duration { return time.Duration(f.LatencyMS) * time.Millisecond }

// parseFault parses a fault, sets default values and reports all mistakes at once.
func parseFault(body []byte) (fault, error) {
	f := fault{Next: 1}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return fault{}, fmt.Errorf("want a JSON object with service, next, mode, status, retry_after, latency_ms, smtp, account, plan, path, ignore_version: %w", err)
	}
	switch {
	case f.Mode != "":
	case f.Status != 0:
		f.Mode = modeStatus
	case f.LatencyMS != 0:
		f.Mode = modeLatency
	}
	if f.Service == email && f.SMTP == "" {
		f.SMTP = stageData
		if f.Mode == modeDropBeforeAccept {
			f.SMTP = stageRcpt
		}
	}
	return f, f.validate()
}

func (f fault) validate() error {
	lowest, mail, workspace := 300, f.Service == email, f.Service == workspaces
	if mail {
		lowest = 400
	}
	answers := f.Mode == modeStatus || f.Mode == modeStatusAfterAccept
	ofStripe := f.Mode == modeStale || f.Mode == modeMissing || f.Mode == modeUnsettled
	var errs []error
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{!slices.Contains(faultable, f.Service),
			fmt.Sprintf("service is %q: want one of %s", f.Service, strings.Join(faultable, ", "))},
		{f.Next < 1 || f.Next > maxNext, fmt.Sprintf("next is %d: want 1 to %d", f.Next, maxNext)},
		{f.Mode == "" && !f.IgnoreVersion, "nothing would happen: give mode, status, latency_ms or ignore_version"},
		{f.Mode != "" && !slices.Contains(modes, f.Mode), fmt.Sprintf("mode is %q: want one of %v", f.Mode, modes)},
		{answers && (f.Status < lowest || f.Status > 599),
			fmt.Sprintf("status is %d: want %d to 599", f.Status, lowest)},
		{!answers && f.Status != 0, fmt.Sprintf("status does not go with mode %s", f.Mode)},
		{f.RetryAfter < 0, fmt.Sprintf("retry_after is %d: want seconds", f.RetryAfter)},
		{f.RetryAfter > 0 && (!answers || mail), "retry_after goes with an HTTP status only"},
		{f.Account != "" && !workspace && f.Service != finance,
			"account is for the services workspaces and finance only"},
		{f.Plan != "" && !workspace, "plan is for service workspaces only"},
		{f.IgnoreVersion && !workspace, "ignore_version is for service workspaces only"},
		{ofStripe && f.Service != stripe,
			"the modes stale, missing and unsettled are for service stripe only"},
		{f.Path != "" && f.Service != stripe && f.Service != flowSinks,
			"path is for the services stripe and sinks only"},
		{f.LatencyMS < 0 || f.LatencyMS > maxLatencyMS || f.Mode == modeLatency && f.LatencyMS == 0,
			fmt.Sprintf("latency_ms is %d: want 1 to %d", f.LatencyMS, maxLatencyMS)},
		{!mail && f.SMTP != "", "smtp is for service email only"},
		{mail && !slices.Contains([]stage{stageMail, stageRcpt, stageData}, f.SMTP),
			fmt.Sprintf("smtp is %q: want mail, rcpt or data", f.SMTP)},
		{mail && strings.HasSuffix(string(f.Mode), "_after_accept") && f.SMTP != stageData,
			fmt.Sprintf("smtp is %q, but a message is accepted at data only", f.SMTP)},
	} {
		if rule.broken {
			errs = append(errs, errors.New(rule.text))
		}
	}
	return errors.Join(errs...)
}

// faults holds the pending faults. The zero value is ready to use.
type faults struct {
	mu   sync.Mutex
	list []fault
}

func (fs *faults) add(f fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = append(fs.list, f)
}

// take uses up one request of the first fault that matches the service, the stage ("" for HTTP), the account, and the
// plan of a workspace or the path of a request to Stripe or a flow's sink. It returns the fault, or the zero value if
// none matches.
func (fs *faults) take(service string, at stage, account, what string) fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for i, f := range fs.list {
		if f.Service != service || f.SMTP != at || f.Account != "" && f.Account != account ||
			f.Plan+f.Path != "" && !strings.HasPrefix(what+":", f.Plan+f.Path+":") {
			continue
		}
		fs.list[i].Next--
		if fs.list[i].Next == 0 {
			fs.list = slices.Delete(fs.list, i, i+1)
		}
		return f
	}
	return fault{}
}

func (fs *faults) pending() []fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return append([]fault{}, fs.list...) // never nil, so that JSON has a list
}

// clear removes the faults of a service. It removes all faults if service is empty.
func (fs *faults) clear(service string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = slices.DeleteFunc(fs.list, func(f fault) bool { return service == "" || f.Service == service })
}
