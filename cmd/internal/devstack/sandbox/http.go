package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/docs"
)

// maxBody bounds a request; what pawl sends is some hundred bytes.
const maxBody = 1 << 20

// routes are the HTTP services.
func (s *Sandbox) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /workspaces/{account}", s.faulty(workspaces, s.putWorkspace))
	mux.HandleFunc("DELETE /workspaces/{account}", s.faulty(workspaces, s.deleteWorkspace))
	mux.HandleFunc("GET /workspaces/{account}", s.getWorkspace)
	mux.HandleFunc("GET /workspaces",
		func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.sinks[workspaces].states()) })
	mux.HandleFunc("POST /entries", s.faulty(finance, s.postEntry))
	mux.HandleFunc("GET /entries", s.list(finance))
	mux.HandleFunc("POST /events", s.faulty(events, s.postEvent))
	mux.HandleFunc("GET /events", s.list(events))
	mux.HandleFunc("POST /relayed", s.faulty(relayed, s.postRelayed))
	mux.HandleFunc("GET /relayed", s.list(relayed))
	mux.HandleFunc("GET /emails", s.list(email))
	mux.HandleFunc("POST /_faults", s.postFault)
	mux.HandleFunc("GET /_faults",
		func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.faults.pending()) })
	mux.HandleFunc("DELETE /_faults", s.deleteFaults)
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(docs.Sinks) // the client may be gone, which is its own affair
	})
	s.stripeRoutes(mux)
	mux.HandleFunc("GET /{$}", s.page)
	// A web page elsewhere must not write to a sandbox that its visitor runs.
	return http.NewCrossOriginProtection().Handler(mux)
}

// reply is an answer that is not sent yet: a fault may stand between.
type reply struct {
	status int
	body   any
	replay bool
}

func refuse(status int, reason string) reply {
	return reply{status: status, body: map[string]string{"error": reason}}
}

// faulty runs handle, or what a fault makes of it. A reply below 300 means that the request was
// accepted.
func (s *Sandbox) faulty(service string, handle func(r *http.Request, body []byte, f fault) reply) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			var tooLarge *http.MaxBytesError
			if errors.As(err, &tooLarge) {
				answer(w, http.StatusRequestEntityTooLarge, refuse(0, "the body is over 1 MiB").body)
				return
			}
			answer(w, http.StatusBadRequest, refuse(0, "the body cannot be read").body)
			return
		}
		account := r.PathValue("account")
		if service == finance {
			account = accountIn(body)
		}
		f := s.faults.take(service, "", modeOf(r), account)
		if f.Mode != "" {
			s.log.Info("sandbox fault", "service", service, "mode", f.Mode)
		}
		s.wait(f.latency())
		switch f.Mode {
		case modeStatus:
			answerFault(w, service, f)
			return
		case modeDropBeforeAccept:
			panic(http.ErrAbortHandler) // net/http closes the connection without an answer
		}
		rep := handle(r, body, f)
		if rep.status >= 300 {
			answer(w, rep.status, rep.body)
			return
		}
		switch f.Mode {
		case modeStatusAfterAccept:
			answerFault(w, service, f)
			return
		case modeHangAfterAccept:
			select {
			case <-r.Context().Done(): // the client has given up
			case <-s.closing:
			}
			panic(http.ErrAbortHandler)
		case modeDropAfterAccept:
			panic(http.ErrAbortHandler)
		}
		if rep.replay {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		answer(w, rep.status, rep.body)
	}
}

// wait returns after d or when the sandbox closes. The client's patience does not matter: a
// server that is slow does its work all the same.
func (s *Sandbox) wait(d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-s.closing:
	}
}

func answerFault(w http.ResponseWriter, service string, f fault) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	if service == stripe {
		answer(w, f.Status, stripeFault(f.Status))
		return
	}
	answer(w, f.Status, refuse(0, "a fault of the sandbox").body)
}

// answer sends body as JSON. The client may be gone, which is its own affair.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// modeOf says whether a request is about live or test events, "" when it does not tell.
func modeOf(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, "/stripe/") {
		return modeOfKey(r)
	}
	if mode := r.Header.Get("Pawl-Mode"); mode != "" {
		return mode
	}
	return strings.TrimPrefix(r.Header.Get("Ce-Source"), "/pawl/")
}

func (s *Sandbox) putWorkspace(r *http.Request, body []byte, f fault) reply {
	object, err := jsonObject(body)
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	rec := record{Account: r.PathValue("account"), Body: object, OutOfOrder: f.IgnoreVersion}
	mode, version := rec.target()
	for header, want := range map[string]string{"Pawl-Mode": mode,
		"Pawl-Target-Version": strconv.FormatInt(version, 10)} {
		if got := r.Header.Get(header); got != "" && got != want {
			return refuse(http.StatusBadRequest,
				fmt.Sprintf("the header %s says %q, and the body %q", header, got, want))
		}
	}
	return s.keyed(workspaces, r, rec, http.StatusOK)
}

func (s *Sandbox) deleteWorkspace(r *http.Request, _ []byte, _ fault) reply {
	body := `{"state":"released"}`
	if mode := r.URL.Query().Get("mode"); mode == "live" || mode == "test" {
		body = `{"mode":"` + mode + `","state":"released"}`
	}
	return s.keyed(workspaces, r, record{Account: r.PathValue("account"), Body: []byte(body)}, http.StatusOK)
}

func (s *Sandbox) postEntry(r *http.Request, body []byte, _ fault) reply {
	object, err := jsonObject(body)
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	return s.keyed(finance, r, record{Account: accountIn(object), Body: object}, http.StatusCreated)
}

// keyed accepts a request that its Idempotency-Key identifies. The answer is made of the record
// alone, so that a remembered one is the same after a restart.
func (s *Sandbox) keyed(service string, r *http.Request, rec record, status int) reply {
	keys := r.Header.Values("Idempotency-Key")
	if len(keys) != 1 || keys[0] == "" || len(keys[0]) > 255 {
		return refuse(http.StatusBadRequest, "want one header Idempotency-Key of 1 to 255 characters")
	}
	rec.Key = keys[0]
	if isCheck(r) {
		return s.checked(rec, status)
	}
	return s.accept(service, rec, true, status)
}

const otherRequest = "this key was used before for another account or with other bytes"

// accepted is the answer to a request with a key.
type accepted struct {
	Key        string          `json:"key"`
	Account    string          `json:"account"`
	AcceptedAt time.Time       `json:"accepted_at"`
	Body       json.RawMessage `json:"body"`
}

func (s *Sandbox) accept(service string, in record, strict bool, status int) reply {
	rec, err := s.keep(service, in, strict)
	switch {
	case errors.Is(err, errOtherRequest):
		return refuse(http.StatusConflict, otherRequest)
	case err != nil:
		s.log.Error("sandbox journal", "service", service, "error", err)
		return refuse(http.StatusInternalServerError, "the journal cannot be written")
	}
	return reply{status: status, body: accepted{rec.Key, rec.Account, rec.At, rec.Body}, replay: !rec.First}
}

// postEvent takes a CloudEvent: https://github.com/cloudevents/spec, HTTP binding §3. Its ID makes
// a repeated one a duplicate, whatever it holds.
func (s *Sandbox) postEvent(r *http.Request, body []byte, _ fault) reply {
	object, err := jsonObject(body)
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	var event struct {
		ID      string          `json:"id"`
		Account string          `json:"account"`
		Data    json.RawMessage `json:"data"`
	}
	// Fields of other types stay empty, which is what they mean here.
	_ = json.Unmarshal(object, &event)
	id, account := event.ID, event.Account
	if header := r.Header.Get("Ce-Id"); header != "" {
		id, account = header, r.Header.Get("Ce-Account")
		if account == "" {
			account = event.Account
		}
	} else if account == "" {
		account = accountIn(event.Data)
	}
	if id == "" {
		return refuse(http.StatusBadRequest, "no CloudEvents ID: want id in the body or the header ce-id")
	}
	if isCheck(r) {
		return s.checked(record{}, http.StatusAccepted)
	}
	return s.accept(events, record{Key: id, Account: account, Body: object}, false, http.StatusAccepted)
}

// postRelayed takes an event of any provider, in the provider's bytes. Its webhook-id makes a repeated one a
// duplicate: https://github.com/standard-webhooks/standard-webhooks. The signature is not checked.
func (s *Sandbox) postRelayed(r *http.Request, body []byte, _ fault) reply {
	id := r.Header.Get("Webhook-Id")
	if id == "" {
		return refuse(http.StatusBadRequest, "no header webhook-id")
	}
	line, err := oneLine(body)
	if err != nil { // a form, say
		if line, err = json.Marshal(string(body)); err != nil {
			return refuse(http.StatusBadRequest, err.Error())
		}
	}
	if isCheck(r) {
		return s.checked(record{}, http.StatusAccepted)
	}
	return s.accept(relayed, record{Key: id, Account: r.Header.Get("Pawl-Account"), Body: line}, false,
		http.StatusAccepted)
}

// jsonObject returns body as it stands in the journal.
func jsonObject(body []byte) (json.RawMessage, error) {
	line, err := oneLine(body)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(string(line), "{") {
		return nil, errors.New("the body is not a JSON object")
	}
	return line, nil
}

// accountIn returns the string "account" of a JSON object, "" without one.
func accountIn(object json.RawMessage) string {
	var in struct {
		Account string `json:"account"`
	}
	if len(object) == 0 || json.Unmarshal(object, &in) != nil {
		return ""
	}
	return in.Account
}

func (s *Sandbox) getWorkspace(w http.ResponseWriter, r *http.Request) {
	modes := []string{"live", "test", ""}
	if mode := r.URL.Query().Get("mode"); mode != "" {
		modes = []string{mode}
	}
	rec, ok := s.sinks[workspaces].state(r.PathValue("account"), modes...)
	if !ok {
		answer(w, http.StatusNotFound, refuse(0, "no such workspace").body)
		return
	}
	answer(w, http.StatusOK, rec)
}

// list shows the records of a service, with ?account= those of one account.
func (s *Sandbox) list(service string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		records := slices.Clone(s.sinks[service].all())
		if account := r.URL.Query().Get("account"); account != "" {
			records = slices.DeleteFunc(records, func(rec record) bool { return rec.Account != account })
		}
		if records == nil {
			records = []record{}
		}
		answer(w, http.StatusOK, records)
	}
}

func (s *Sandbox) postFault(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		answer(w, http.StatusBadRequest, refuse(0, "the body cannot be read").body)
		return
	}
	f, err := parseFault(body)
	if err != nil {
		answer(w, http.StatusBadRequest, map[string][]string{"errors": strings.Split(err.Error(), "\n")})
		return
	}
	s.faults.add(f)
	answer(w, http.StatusCreated, f)
}

func (s *Sandbox) deleteFaults(w http.ResponseWriter, r *http.Request) {
	service := r.URL.Query().Get("service")
	if service != "" && !slices.Contains(faultable, service) {
		answer(w, http.StatusBadRequest, refuse(0, "service: want one of "+strings.Join(faultable, ", ")).body)
		return
	}
	s.faults.clear(service)
	w.WriteHeader(http.StatusNoContent)
}
