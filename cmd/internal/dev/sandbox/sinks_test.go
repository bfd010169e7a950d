package sandbox_test

import (
	"net/http"
	"strings"
	"testing"
)

// The sandbox accepts any request of a flow, and repeats its answer to a repeated key. The answer has the fields of the
// request and an id.
func TestSinks_AnyRequest_KeyIsRemembered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	reserve := s.URL() + "/sinks/stock/reservations"
	status, _, first, err := call(t, http.MethodPost, reserve, `{"order": 9007199254740993, "n": 2}`, "Idempotency-Key", "k1")
	if want(t, status, err, http.StatusOK); !strings.Contains(first, `"order":9007199254740993`) || !strings.Contains(first, `"id":"sandbox_`) {
		t.Errorf("answered %s, want the fields and an id", first)
	}
	status, header, again, err := call(t, http.MethodPost, reserve, `{"order": 9007199254740993, "n": 2}`, "Idempotency-Key", "k1")
	if want(t, status, err, http.StatusOK); again != first || header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the repeated request is answered %s, want %s", again, first)
	}
	status, _, _, err = call(t, http.MethodPost, reserve, `{"order": 1}`, "Idempotency-Key", "k1")
	want(t, status, err, http.StatusConflict)
	status, _, answer, err := call(t, http.MethodDelete, reserve+"/r1", "", "Idempotency-Key", "k2")
	if want(t, status, err, http.StatusOK); !strings.Contains(answer, `"id":"sandbox_`) {
		t.Errorf("a request without a body is answered %s, want an id", answer)
	}
	status, _, answer, err = call(t, http.MethodPut, s.URL()+"/sinks/crm/deals", `{"id": "d1"}`, "Idempotency-Key", "k3")
	if want(t, status, err, http.StatusOK); strings.TrimSpace(answer) != `{"id":"d1"}` {
		t.Errorf("a body with an id is answered %s, want the id", answer)
	}
	status, _, _, err = call(t, http.MethodGet, reserve+"/a%2Fb", "", "Idempotency-Key", "k5")
	want(t, status, err, http.StatusOK)
	for body, header := range map[string]string{`{"order": 1}`: "", "order=1": "k4"} { // no key; no JSON
		status, _, _, err := call(t, http.MethodPost, reserve, body, "Idempotency-Key", header)
		want(t, status, err, http.StatusBadRequest)
	}
	var bodies []string
	for _, l := range journal(t, dir, "sinks") {
		if l.First {
			bodies = append(bodies, string(l.Body))
		}
	}
	if got, want := strings.Join(bodies, "\n"), `{"sink":"stock","method":"POST","path":"/reservations","body":{"order":9007199254740993,"n":2}}
{"sink":"stock","method":"DELETE","path":"/reservations/r1"}
{"sink":"crm","method":"PUT","path":"/deals","body":{"id":"d1"}}
{"sink":"stock","method":"GET","path":"/reservations/a%2Fb"}`; got != want {
		t.Errorf("the journal has\n%s\nwant\n%s", got, want)
	}
}

// A fault applies to one sink, or to one path of it.
func TestFaults_OnlyOneSink(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	fault(t, s, `{"service":"sinks","status":409,"path":"stock:reservations"}`)
	fault(t, s, `{"service":"sinks","status":503,"path":"ship"}`)
	for i, c := range []struct {
		path string
		want int
	}{
		{"stock/orders", 200}, {"stock/reservations/1", 409}, {"stock/reservations/1", 200}, {"shipping/labels", 200},
		{"ship/labels", 503},
	} {
		status, _, _, err := call(t, http.MethodPost, s.URL()+"/sinks/"+c.path, `{}`, "Idempotency-Key", "k"+string(rune('a'+i)))
		want(t, status, err, c.want)
	}
}

func TestNotifications(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	for range 2 {
		status, _, _, err := call(t, http.MethodPost, s.URL()+"/notifications", `{"message": "finance is down"}`, "Idempotency-Key", "notice:1")
		want(t, status, err, http.StatusAccepted)
	}
	if lines := journal(t, dir, "notifications"); len(lines) != 2 || !lines[0].First || lines[1].First {
		t.Errorf("the journal has %+v, want one message and its repetition", lines)
	}
	_, _, page, err := call(t, http.MethodGet, s.URL()+"/", "")
	if err != nil || !strings.Contains(page, "finance is down") {
		t.Errorf("the page does not contain the message: %v", err)
	}
}
