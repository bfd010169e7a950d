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

	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/docs"
)

// maxBody is the largest accepted body in bytes. pawl sends some hundred bytes.
const maxBody = 1 << 20

// routes returns the handlers of the HTTP services.
func (s *Sandbox) routes() http.Handler {
	mux := http.NewServeMux()
	for _, v := range received {
		for _, method := range v.methods {
			mux.HandleFunc(method+" "+v.path, s.faulty(v.name, func(r *http.Request, body []byte, f fault) reply {
				return s.receive(v, r, body, f)
			}))
		}
	}
	for pattern, handle := range map[string]func(*http.Request) reply{
		"GET /workspaces/{account}": s.getWorkspace,
		"GET /workspaces":           s.list(workspaces),
		"GET /entries":              s.list(finance),
		"GET /events":               s.list(events),
		"GET /relayed":              s.list(relayed),
		"GET /sinks":                s.list(flowSinks),
		"GET /notifications":        s.list(notifications),
		"GET /emails":               s.list(email),
		"GET /_faults": func(*http.Request) reply {
			return reply{status: http.StatusOK, body: s.faults.pending()}
		},
		"DELETE /_faults": s.deleteFaults,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { handle(r).send(w) })
	}
	mux.HandleFunc("POST /_faults", answering(maxBody, s.postFault))
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(docs.Sinks) // ignore a closed connection
	})
	s.stripeRoutes(mux)
	mux.HandleFunc("GET /{$}", s.page)
	// A web page of another origin must not write to a sandbox on the machine of its visitor.
	return http.NewCrossOriginProtection().Handler(mux)
}

// list returns the records of a service. The parameter account selects the records of one account.
func (s *Sandbox) list(service string) func(*http.Request) reply {
	return func(r *http.Request) reply {
		records := []record{}
		for _, rec := range s.journals[service].all() {
			if account := r.FormValue("account"); account == "" || account == rec.Account {
				records = append(records, rec)
			}
		}
		return reply{status: http.StatusOK, body: records}
	}
}

// reply is an answer before it is sent, so that a fault can replace it.
type reply struct {
	status     int
	body       any
	replay     bool
	retryAfter int // in seconds; 0 means no header
}

func refuse(status int, reason string) reply {
	return reply{status: status, body: map[string]string{"error": reason}}
}

// send writes the reply as JSON. It ignores a closed connection.
func (rep reply) send(w http.ResponseWriter) {
	if rep.replay {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if rep.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(rep.retryAfter))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(rep.status)
	_ = json.NewEncoder(w).Encode(rep.body)
}

// answering returns a handler that reads a body of at most most bytes.
func answering(most int64, handle func(r *http.Request, body []byte) reply) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is over %d MiB", most>>20)).send(w)
			return
		}
		if err != nil {
			refuse(http.StatusBadRequest, "the body cannot be read").send(w)
			return
		}
		handle(r, body).send(w)
	}
}

// faulty runs handle and applies a pending fault. A reply below 300 means that the request was accepted. A panic with
// http.ErrAbortHandler makes net/http close the connection without an answer.
func (s *Sandbox) faulty(service string, handle func(r *http.Request, body []byte, f fault) reply) http.HandlerFunc {
	return answering(maxBody, func(r *http.Request, body []byte) reply {
		account, what := r.PathValue("account"), planIn(body)
		switch service {
		case finance:
			account = gjson.GetBytes(body, "account").Str
		case flowSinks:
			what = r.PathValue("sink") + ":" + strings.ReplaceAll(r.PathValue("path"), "/", ":")
		case stripe:
			what = strings.ReplaceAll(strings.TrimPrefix(r.URL.Path, "/stripe/v1/"), "/", ":")
		}
		f := s.take(service, "", account, what)
		s.wait(f.latency())
		failed := refuse(f.Status, "a fault of the sandbox")
		if service == stripe {
			failed = stripeFault(f.Status)
		}
		failed.retryAfter = f.RetryAfter
		switch f.Mode {
		case modeStatus:
			return failed
		case modeDropBeforeAccept:
			panic(http.ErrAbortHandler)
		}
		rep := handle(r, body, f)
		if rep.status >= 300 {
			return rep
		}
		switch f.Mode {
		case modeStatusAfterAccept:
			return failed
		case modeHangAfterAccept:
			select {
			case <-r.Context().Done(): // the client has given up
			case <-s.closing:
			}
			panic(http.ErrAbortHandler)
		case modeDropAfterAccept:
			panic(http.ErrAbortHandler)
		}
		return rep
	})
}

// take is faults.take with a log line.
func (s *Sandbox) take(service string, at stage, account, what string) fault {
	f := s.faults.take(service, at, account, what)
	if f.Service != "" {
		s.log.Info("sandbox fault", "service", service, "mode", f.Mode, "smtp", at)
	}
	return f
}

// wait returns after d or when the sandbox closes. It ignores a disconnect of the client, because a slow server still
// does its work.
func (s *Sandbox) wait(d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-s.closing:
	}
}

// receive stores a request of a service and answers it. It does not store a request with the header Pawl-Check. The
// answer is computed from the stored record alone, so that a repeated request gets the same answer after a restart.
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
	in.OutOfOrder = f.IgnoreVersion
	keep := s.keep
	if r.Header.Get("Pawl-Check") == "true" { // `pawl sinks check`
		keep = func(_ string, in record, strict bool) (record, error) { return s.checks.accept(in, strict) }
	}
	rec, err := keep(v.name, in, v.keyed)
	switch {
	case errors.Is(err, errOtherRequest):
		return refuse(http.StatusConflict, err.Error())
	case err != nil:
		s.log.Error("sandbox journal", "service", v.name, "error", err)
		return refuse(http.StatusInternalServerError, "the journal cannot be written")
	}
	rep := reply{status: v.status, body: accepted{rec.Key, rec.Account, rec.At, rec.Body}, replay: !rec.First}
	if v.name == flowSinks {
		rep.body = sinkAnswer(rec)
	}
	return rep
}

// accepted is the body of the answer to an accepted request.
type accepted struct {
	Key        string          `json:"key"`
	Account    string          `json:"account"`
	AcceptedAt time.Time       `json:"accepted_at"`
	Body       json.RawMessage `json:"body"`
}

// planIn returns the plan of a workspace target as plan:seats. It returns "" if the target has no plan.
func planIn(target json.RawMessage) string {
	is := gjson.GetManyBytes(target, "plan", "quantity")
	if is[0].Str == "" {
		return ""
	}
	return is[0].Str + ":" + is[1].Raw
}

func (s *Sandbox) getWorkspace(r *http.Request) reply {
	modes := []string{"live", "test", ""}
	if mode := r.URL.Query().Get("mode"); mode != "" {
		modes = []string{mode}
	}
	rec, ok := s.journals[workspaces].state(r.PathValue("account"), modes...)
	if !ok {
		return refuse(http.StatusNotFound, "no such workspace")
	}
	return reply{status: http.StatusOK, body: rec}
}

func (s *Sandbox) postFault(_ *http.Request, body []byte) reply {
	f, err := parseFault(body)
	if err != nil {
		return reply{status: http.StatusBadRequest,
			body: map[string][]string{"errors": strings.Split(err.Error(), "\n")}}
	}
	s.faults.add(f)
	return reply{status: http.StatusCreated, body: f}
}

func (s *Sandbox) deleteFaults(r *http.Request) reply {
	service := r.URL.Query().Get("service")
	if service != "" && !slices.Contains(faultable, service) {
		return refuse(http.StatusBadRequest, "service: want one of "+strings.Join(faultable, ", "))
	}
	s.faults.clear(service)
	return reply{status: http.StatusNoContent}
}
