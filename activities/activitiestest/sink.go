package activitiestest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Sink is an HTTP API that applies each Idempotency-Key once. A repeat with the same bytes gets the stored response,
// a repeat with other bytes 409, and a request without a key 400. A request that violates docs/sinks.openapi.yaml
// fails the test.
type Sink struct {
	// URL is the base URL, without a trailing slash.
	URL string

	t        testing.TB
	mu       sync.Mutex
	cues     []Cue
	requests []Request
	first    map[string]Request
	gone     chan struct{}
}

// Request is a received request.
type Request struct {
	Method, Path, Key, Authorization, ContentType, Body string
	// Pawl holds the headers Pawl-Mode and Pawl-Target-Version.
	Pawl map[string]string
	// CloudEvent holds the ce- headers of a CloudEvent in binary mode.
	CloudEvent map[string]string
	// Applied is set for the first request with a key that the sink applied.
	Applied bool
}

// Cue defines the response to the next request. The zero Cue is a successful response.
type Cue struct {
	// Status is the status of an error response, with Header and Body.
	Status int
	Header map[string]string
	Body   string
	// If Apply is set, the sink applies the request before it fails.
	Apply bool
	// If Drop is set, the sink closes the connection without a response. If Hang is set, it never responds.
	Drop, Hang bool
	// Until, if set, delays the response until the channel is closed.
	Until <-chan struct{}
}

// NewSink starts a sink for the duration of the test.
func NewSink(t testing.TB) *Sink {
	t.Helper()
	s := &Sink{t: t, first: map[string]Request{}, gone: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = server.URL
	t.Cleanup(func() {
		close(s.gone)
		server.Close()
	})
	return s
}

// Next queues cues for the next requests. All later requests get a successful response.
func (s *Sink) Next(cues ...Cue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cues = append(s.cues, cues...)
}

// Requests returns all received requests, in order.
func (s *Sink) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Applied returns the requests that the sink applied. It omits failed requests and repeats of an idempotency key.
func (s *Sink) Applied() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return !r.Applied })
}

func (s *Sink) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client disconnected
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := Conforms(r); err != nil {
		s.t.Errorf("%s %s with %s: %v", r.Method, r.URL, body, err)
	}
	in := Request{
		Method: r.Method, Path: r.URL.Path, Key: r.Header.Get("Idempotency-Key"),
		Authorization: r.Header.Get("Authorization"),
		ContentType:   r.Header.Get("Content-Type"), Body: string(body), Pawl: map[string]string{},
		CloudEvent: map[string]string{},
	}
	for _, name := range []string{"Pawl-Mode", "Pawl-Target-Version"} {
		if value := r.Header.Get(name); value != "" {
			in.Pawl[name] = value
		}
	}
	for _, name := range []string{"id", "type", "source", "subject", "specversion"} {
		if value := r.Header.Get("ce-" + name); value != "" {
			in.CloudEvent[name] = value
		}
	}
	if in.Key == "" {
		in.Key = in.CloudEvent["id"] // destinations deduplicate events by this ID
	}
	cue := s.take()
	if cue.Until != nil {
		select {
		case <-cue.Until:
		case <-s.gone:
		}
	}
	healthy := cue.Status == 0 && !cue.Drop && !cue.Hang
	status := s.apply(in, healthy || cue.Apply)
	switch {
	case cue.Hang:
		select {
		case <-r.Context().Done():
		case <-s.gone:
		}
		panic(http.ErrAbortHandler)
	case cue.Drop:
		panic(http.ErrAbortHandler)
	case cue.Status != 0:
		for name, value := range cue.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(cue.Status)
		_, _ = io.WriteString(w, cue.Body)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"id":"ref:`+in.Key+`"}`)
	}
}

func (s *Sink) take() Cue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cues) == 0 {
		return Cue{}
	}
	cue := s.cues[0]
	s.cues = s.cues[1:]
	return cue
}

// apply stores the request and returns the status of a healthy response.
func (s *Sink) apply(in Request, may bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.first[in.Key]
	status := http.StatusOK
	switch {
	case in.Key == "":
		status = http.StatusBadRequest
	case known && (before.Body != in.Body || before.Path != in.Path):
		status = http.StatusConflict
	case !known && may:
		in.Applied = true
		s.first[in.Key] = in
	}
	s.requests = append(s.requests, in)
	return status
}
