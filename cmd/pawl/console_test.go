package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/token"
)

// The console serves the API only to requests with a token.
func TestConsole_APIByToken(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"billing": "stripe"})
	listen := schematest.FreeAddr(t)
	commandtest.Write(t, s.File, commandtest.Read(t, s.File)+"console: {listen: '"+listen+"'}\nops: {console: '"+schematest.FreeAddr(t)+"'}\n")
	r := s.Pawl(t, "tokens", "new", "shop", "--role", "viewer", "--expires", "1d", "--networks", "127.0.0.1", "--reason", "the shop asks")
	text := strings.TrimSpace(r.Out[strings.LastIndex(strings.TrimSpace(r.Out), "\n")+1:])
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- program().Run(ctx, []string{"--config", s.File, "console"}, command.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, s.Variable)
	}()
	t.Cleanup(func() { stop(); <-ended })
	for token, want := range map[string]int{text: http.StatusOK, token.New(): http.StatusUnauthorized} {
		for {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listen+"/api/v1/sources", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			res, err := http.DefaultClient.Do(req)
			if err != nil { // the console does not listen yet
				select {
				case code := <-ended:
					ended <- code
					t.Fatalf("the console has ended with %d", code)
				case <-time.After(20 * time.Millisecond):
				}
				continue
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || res.StatusCode != want || want == http.StatusOK != strings.Contains(string(body), `"name":"billing"`) {
				t.Errorf("answered %d, want %d: %s (%v)", res.StatusCode, want, body, err)
			}
			break
		}
	}
}
