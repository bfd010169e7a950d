package sandbox

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/docs"
)

// maxBody bounds a request; what pawl sends is some hundred bytes.
const maxBody = 1 << 20

// routes are the HTTP services.
func (s *Sandbox) routes() http.Handler {
	mux := http.NewServeMux()
	for _, v := range received {
		mux.HandleFunc(v.pattern, s.faulty(v.name, func(r *http.Request, body []byte, f fault) reply {
			return s.receive(v, r, body, f)
		}))
	}
	mux.HandleFunc("GET /workspaces/{account}", s.getWorkspace)
	mux.HandleFunc("GET /workspaces",
		func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.sinks[workspaces].states()) })
	mux.HandleFunc("GET /entries", s.list(finance))
	mux.HandleFunc("GET /events", s.list(events))
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
		account, what := r.PathValue("account"), planIn(body)
		switch service {
		case finance:
			account = gjson.GetBytes(body, "account").Str
		case stripe:
			what = strings.ReplaceAll(strings.TrimPrefix(r.URL.Path, "/stripe/v1/"), "/", ":")
		}
		f := s.faults.take(service, "", modeOf(r), account, what)
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

// receive takes a request of a service, or only says how it would be answered. The answer is made of the record alone,
// so that a remembered one is the same after a restart.
func (s *Sandbox) receive(v service, r *http.Request, body []byte, f fault) reply {
	in, err := v.read(r, body)
	if err == nil && v.keyed {
		keys := r.Header.Values("Idempotency-Key")
		if len(keys) != 1 || keys[0] == "" || len(keys[0]) > 255 {
			err = errors.New("want one header Idempotency-Key of 1 to 255 characters")
		} else {
			in.Key = keys[0]
		}
	}
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	if isCheck(r) {
		return s.checked(in, v)
	}
	in.OutOfOrder = f.IgnoreVersion
	rec, err := s.keep(v.name, in, v.keyed)
	switch {
	case errors.Is(err, errOtherRequest):
		return refuse(http.StatusConflict, otherRequest)
	case err != nil:
		s.log.Error("sandbox journal", "service", v.name, "error", err)
		return refuse(http.StatusInternalServerError, "the journal cannot be written")
	}
	return reply{status: v.status, body: accepted{rec.Key, rec.Account, rec.At, rec.Body}, replay: !rec.First}
}

const otherRequest = "this key was used before for another account or with other bytes"

// accepted is the answer to a request that was taken.
type accepted struct {
	Key        string          `json:"key"`
	Account    string          `json:"account"`
	AcceptedAt time.Time       `json:"accepted_at"`
	Body       json.RawMessage `json:"body"`
}

// planIn returns what the target of a workspace names as plan:seats, "" without one.
func planIn(target json.RawMessage) string {
	is := gjson.GetManyBytes(target, "plan", "quantity")
	if is[0].Str == "" {
		return ""
	}
	return is[0].Str + ":" + is[1].Raw
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
