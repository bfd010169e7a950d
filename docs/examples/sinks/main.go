// Command sinks is a minimal workspace and finance API that meets pawl's requirements: it stores the request of each
// idempotency key, and it never replaces a target with an older one. It keeps everything in memory; docs/sinks.md
// describes the same in a database. If SINK_TOKEN is set, every request needs this token.
package main

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

type sinks struct {
	sync.Mutex
	token    string
	keys     map[string][]byte // the body of the first request, by Idempotency-Key
	versions map[string]int64  // the current version of each workspace, by mode and account
	entries  int
}

func (s *sinks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given, want := []byte(r.Header.Get("Authorization")), []byte("Bearer "+s.token)
	if s.token != "" && subtle.ConstantTimeCompare(given, want) == 0 {
		http.Error(w, `{"error":"the token is wrong"}`, http.StatusUnauthorized)
		return
	}
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
	listen := flag.String("listen", "127.0.0.1:9000", "the address of the API")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", listener.Addr())
	api := &sinks{token: os.Getenv("SINK_TOKEN"), keys: map[string][]byte{}, versions: map[string]int64{}}
	server := http.Server{Handler: api, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}
