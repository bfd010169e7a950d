package api

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
)

var (
	blocks = regexp.MustCompile("(?ms)^```(sh|json)\n(.*?)^```")
	words  = regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`)
)

// Each example in docs/api.md works unchanged, in the order of the page, and its response has the fields that the
// page shows.
func TestDocs_API_ExamplesRun(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(world...)
	s.operator.Temporal = taking{}
	made := want[decide.Answer](t, s.ask(http.MethodPost, "/tokens/{id}/new", "shop", "", "admin", `{"reason":"x","role":"operator","expires":"1d","networks":"all"}`), http.StatusOK)
	expand := strings.NewReplacer("$TOKEN", made.Result.(map[string]any)["token"].(string), "$PAWL", s.url)
	page, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	ran, shown := 0, 0
	var answer []byte
	for _, block := range blocks.FindAllStringSubmatch(string(page), -1) {
		if block[1] == "json" {
			shown++
			var told, got map[string]any
			if err := json.Unmarshal([]byte(block[2]), &told); err != nil {
				t.Fatalf("%v: %s", err, block[2])
			}
			if err := json.Unmarshal(answer, &got); err != nil {
				t.Fatalf("%v: %s", err, answer)
			}
			for field, value := range told {
				if _, has := got[field]; !has || field == "message" && !strings.Contains(got[field].(string), value.(string)) {
					t.Errorf("the page shows %s as %v, and the answer is %s", field, value, answer)
				}
			}
			continue
		}
		for line := range strings.Lines(block[2]) {
			if strings.HasPrefix(line, "curl ") {
				ran++
				answer = curl(t, expand.Replace(line))
			}
		}
	}
	if ran < 10 || shown < 2 {
		t.Errorf("ran %d examples and compared %d: the reader of this test no longer finds them", ran, shown)
	}
}

// curl executes a curl command of the page, and returns the body of a successful response.
func curl(t *testing.T, line string) []byte {
	t.Helper()
	var args []string
	for _, m := range words.FindAllStringSubmatch(line, -1) {
		args = append(args, m[1]+m[2]+m[3])
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, args[len(args)-1], nil)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	for i := 1; i < len(args)-1; i++ {
		switch args[i] {
		case "-s":
			continue
		case "-X":
			r.Method = args[i+1]
		case "-d":
			r.Body = io.NopCloser(strings.NewReader(args[i+1]))
		case "-H":
			name, value, _ := strings.Cut(args[i+1], ": ")
			r.Header.Set(name, value)
		default:
			t.Fatalf("%s: the reader of this test does not know %s", line, args[i])
		}
		i++
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%s: answered %d, %s (%v)", line, res.StatusCode, body, err)
	}
	return body
}
