package sandbox

import (
	"bytes"
	"net/http"
	"sync"
	"time"
)

// checks are what `pawl sinks check` has asked: keys are remembered as ever, until the sandbox ends, and nothing is
// done.
type checks struct {
	mu   sync.Mutex
	keys map[string]record
}

// isCheck reports whether a request is only to find out how it is answered.
func isCheck(r *http.Request) bool { return r.Header.Get("Pawl-Check") == "true" }

// checked answers as receive does, and does nothing. It remembers only what an Idempotency-Key identifies.
func (s *Sandbox) checked(in record, v service) reply {
	s.checks.mu.Lock()
	defer s.checks.mu.Unlock()
	rec, known := s.checks.keys[in.Key]
	switch {
	case !v.keyed:
		return reply{status: v.status, body: map[string]string{"check": "passed"}}
	case known && (rec.Account != in.Account || !bytes.Equal(rec.Body, in.Body)):
		return refuse(http.StatusConflict, otherRequest)
	case !known:
		in.At = time.Now().UTC()
		if s.checks.keys == nil {
			s.checks.keys = map[string]record{}
		}
		s.checks.keys[in.Key], rec = in, in
	}
	return reply{status: v.status, body: accepted{rec.Key, rec.Account, rec.At, rec.Body}, replay: known}
}
