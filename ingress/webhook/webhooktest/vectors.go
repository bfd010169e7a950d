package webhooktest

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// VectorFiles holds the vectors of all providers as testdata/vectors/PROVIDER-NUMBER.json.
//
//go:embed testdata/vectors/*.json
var VectorFiles embed.FS

// Vector is one request with the verdict of the provider's documentation. The README in the same directory explains its
// fields.
type Vector struct {
	Name string `json:"-"` // the file's name without extension

	Provider         string            `json:"provider"`
	Scheme           string            `json:"scheme"`
	Secret           string            `json:"secret"`
	Secrets          []string          `json:"secrets"`
	PublicKey        string            `json:"public_key"`
	CertificatePEM   string            `json:"certificate_pem"`
	WebhookID        string            `json:"webhook_id"`
	URL              string            `json:"url"`
	Headers          map[string]string `json:"headers"`
	Body             []byte            `json:"body_base64"`
	NowUnix          int64             `json:"now_unix"`
	ToleranceSeconds int64             `json:"tolerance_seconds"`
	LegacySHA1       bool              `json:"legacy_sha1"`

	Valid     bool            `json:"valid"`
	Expect    webhook.Class   `json:"expect"`
	EventID   *string         `json:"event_id"`
	EventType *string         `json:"event_type"`
	ObjectID  *string         `json:"object_id"`
	Account   *string         `json:"account"`
	Created   json.RawMessage `json:"created"`
}

// Settings returns the settings of the source that v was sent to. The caller adds provider-specific options. The
// secrets are the vector's secrets, or its public key. They are published examples, and some are short.
func (v Vector) Settings() webhook.Settings {
	s := webhook.Settings{
		Source:    v.Name,
		URL:       v.URL,
		Tolerance: time.Duration(v.ToleranceSeconds) * time.Second,
		Options:   map[string]string{webhook.AllowShortSecrets: "true"},
	}
	for _, value := range append([]string{v.Secret, v.PublicKey}, v.Secrets...) {
		if value != "" && (value != v.PublicKey || v.Secret == "") {
			s.Secrets = append(s.Secrets,
				webhook.Secret{Label: "secret-" + string(rune('a'+len(s.Secrets))), Value: value})
		}
	}
	return s
}

// Request returns the request of v.
func (v Vector) Request() webhook.Request {
	r := webhook.Request{Method: http.MethodPost, URL: v.URL, Header: http.Header{}, Body: v.Body,
		ReceivedAt: time.Unix(v.NowUnix, 0)}
	for name, value := range v.Headers {
		r.Header.Set(name, value)
	}
	return r
}

// Vectors checks p against all vectors of its name. prepare returns the source and the request of a vector; nil means
// [Vector.Settings] and [Vector.Request].
func Vectors(t *testing.T, p webhook.Provider, prepare func(Vector) (webhook.Settings, webhook.Request)) {
	t.Helper()
	if prepare == nil {
		prepare = func(v Vector) (webhook.Settings, webhook.Request) { return v.Settings(), v.Request() }
	}
	vectors := LoadVectors(t, p.Name)
	if len(vectors) == 0 {
		t.Fatalf("no vectors of provider %s", p.Name)
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			settings, r := prepare(v)
			checkVector(t, p, v, settings, &r)
		})
	}
}

func checkVector(t *testing.T, p webhook.Provider, v Vector, settings webhook.Settings, r *webhook.Request) {
	t.Helper()
	verifier, err := p.New(settings)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	_, err = verifier.Verify(r)
	if (err == nil) != v.Valid {
		t.Fatalf("Verify: got %v, want valid=%t", err, v.Valid)
	}
	if err != nil {
		if class, _ := webhook.ClassOf(err); v.Expect != "" && class != v.Expect {
			t.Errorf("Verify: got class %s (%v), want %s", class, err, v.Expect)
		}
		return
	}
	events := verifier.Events(r)
	CheckEvents(t, events)
	if len(events) == 0 {
		t.Fatal("Events: none, want one")
	}
	got := events[0]
	for name, c := range map[string]struct {
		got  string
		want *string
	}{
		"ID": {got.ID, v.EventID}, "Type": {got.Type, v.EventType}, "Object": {got.Object, v.ObjectID},
		"Account": {got.Account, v.Account},
	} {
		if c.want != nil && c.got != *c.want {
			t.Errorf("%s: got %q, want %q", name, c.got, *c.want)
		}
	}
	if want, ok := v.created(t); ok && !got.OccurredAt.Equal(want) {
		t.Errorf("OccurredAt: got %s, want %s", got.OccurredAt, want)
	}
}

// created reads the field of that name, in seconds or in RFC 3339.
func (v Vector) created(t *testing.T) (time.Time, bool) {
	t.Helper()
	if len(v.Created) == 0 || string(v.Created) == "null" {
		return time.Time{}, false
	}
	var text string
	if json.Unmarshal(v.Created, &text) == nil {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatalf("created: %v", err)
		}
		return at, true
	}
	var seconds int64
	if err := json.Unmarshal(v.Created, &seconds); err != nil {
		t.Fatalf("created: %v", err)
	}
	return time.Unix(seconds, 0), true
}

// LoadVectors returns the vectors of the provider, sorted by name.
func LoadVectors(t testing.TB, provider string) []Vector {
	t.Helper()
	files, err := fs.Glob(VectorFiles, "testdata/vectors/"+provider+"-*.json")
	if err != nil {
		t.Fatal(err)
	}
	vectors := make([]Vector, 0, len(files))
	for _, file := range files {
		data, err := VectorFiles.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v := Vector{Name: strings.TrimSuffix(path.Base(file), ".json")}
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		vectors = append(vectors, v)
	}
	return vectors
}
