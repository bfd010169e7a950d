package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The channels that report failures to people.
const (
	byAlert  = "alert"  // Prometheus notifies an Alertmanager
	byNotify = "notify" // a worker calls a webhook
)

// told is one report of a failure, with its start and its end.
type told struct {
	By, Name, Severity, Runbook, Says string
	// Began is the time of the first report. Times counts how often the start was reported. Over is the time when the
	// end was reported.
	Began, Over time.Time
	Times       int
	key         string
}

func (o told) String() string {
	return fmt.Sprintf("%s %s (%s, %s), told %d times: %s", o.By, o.Name, o.Severity, o.Runbook, o.Times, o.Says)
}

// receiver accepts alerts like an Alertmanager, and the messages of notify.
type receiver struct {
	url   string
	mu    sync.Mutex
	all   []told
	wrong []string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v2/alerts", r.takeAlerts)
	mux.HandleFunc("POST /notify", r.takeMessage)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// takeAlerts accepts the requests of Prometheus, which repeats each alert while it fires and for some time after its
// end.
func (r *receiver) takeAlerts(w http.ResponseWriter, req *http.Request) {
	var alerts []struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
	}
	if err := json.NewDecoder(req.Body).Decode(&alerts); err != nil {
		r.refuse(w, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range alerts {
		key := fmt.Sprint(a.Labels, a.StartsAt.UTC())
		at := slices.IndexFunc(r.all, func(o told) bool { return o.key == key })
		ended := !a.EndsAt.After(time.Now())
		if at < 0 && !ended {
			runbook := strings.TrimSuffix(path.Base(a.Annotations["runbook"]), ".md")
			r.all = append(r.all, told{By: byAlert, Name: a.Labels["alertname"], Severity: a.Labels["severity"], Runbook: runbook,
				Says: a.Annotations["summary"], Began: time.Now(), Times: 1, key: key})
		} else if at >= 0 && ended && r.all[at].Over.IsZero() {
			r.all[at].Over = time.Now()
		}
	}
}

// takeMessage accepts the messages of notify.
func (r *receiver) takeMessage(w http.ResponseWriter, req *http.Request) {
	var m struct {
		Name, Severity, Message, Runbook, Command string
		Count                                     int
		Over                                      *time.Time `json:"ended_at"`
	}
	if err := json.NewDecoder(req.Body).Decode(&m); err != nil {
		r.refuse(w, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.all, func(o told) bool { return o.By == byNotify && o.Name == m.Name && o.Over.IsZero() })
	runbook := strings.TrimSuffix(path.Base(m.Runbook), ".md")
	switch {
	case m.Over == nil && at < 0:
		r.all = append(r.all, told{By: byNotify, Name: m.Name, Severity: m.Severity, Runbook: runbook, Says: m.Message, Began: time.Now(), Times: 1})
	case m.Over == nil && r.all[at].Severity == m.Severity: // if a ticket becomes a page, it is reported again
		r.all[at].Times++
	case m.Over == nil:
		r.all[at].Severity = m.Severity
	case at < 0:
		r.wrong = append(r.wrong, "told the end alone of "+m.Name)
	default:
		r.all[at].Over = time.Now()
	}
}

func (r *receiver) refuse(w http.ResponseWriter, err error) {
	w.WriteHeader(http.StatusBadRequest)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, err.Error())
}

// now returns all reports, and the errors found in them.
func (r *receiver) now() ([]told, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all), slices.Clone(r.wrong)
}

// find returns the reports whose name is equal to the name, or begins with it.
func (r *receiver) find(want told) (found []told) {
	all, _ := r.now()
	for _, o := range all {
		if o.By == want.By && (o.Name == want.Name || want.By == byNotify && strings.HasPrefix(o.Name, want.Name)) {
			found = append(found, o)
		}
	}
	return found
}
