// Command sinks is a minimal workspace and finance API that meets pawl's requirements: it stores the request of each
// idempotency key, and it never replaces a target with an older one. In your systems, do both in the transaction that
// makes the change.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"sync"
	"time"
)

type sinks struct {
	sync.Mutex
	keys     map[string][]byte // the body of the first request, by Idempotency-Key
	versions map[string]int64  // the current version of each workspace, by mode and account
	entries  int
}

func (s *sinks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	key := r.Header.Get("Idempotency-Key")
	var in struct {
		Mode, Account, Plan, State string
		Version, Amount            int64
	}
	if err != nil || key == "" || json.Unmarshal(body, &in) != nil {
		http.Error(w, `{"error":"want a JSON object and an Idempotency-Key"}`, http.StatusBadRequest)
		return
	}
	s.Lock()
	defer s.Unlock()
	if before, known := s.keys[key]; known {
		if !bytes.Equal(before, body) {
			w.WriteHeader(http.StatusConflict) // the key of another request: nothing is done
		}
		return // done before: the answer is the same
	}
	s.keys[key] = body
	if r.Header.Get("Pawl-Check") != "" {
		return // pawl sinks check: the key is remembered, and nothing is done
	}
	if r.Method == http.MethodPost { // POST /entries
		s.entries++
		log.Printf("booked %d for %s", in.Amount, in.Account)
	} else if of := in.Mode + " " + in.Account; in.Version > s.versions[of] { // PUT /workspaces/{account}
		s.versions[of] = in.Version
		log.Printf("workspace of %s: %s %s (version %d)", of, in.State, in.Plan, in.Version)
	}
}

func main() {
	server := http.Server{
		Addr: "127.0.0.1:9000", ReadHeaderTimeout: 5 * time.Second,
		Handler: &sinks{keys: map[string][]byte{}, versions: map[string]int64{}},
	}
	log.Fatal(server.ListenAndServe())
}
