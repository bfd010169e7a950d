package webhooktest

import (
	"bytes"
	"net/http"
	"reflect"
	"testing"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// FuzzVerify fuzzes v with other values of one header and other bodies, starting from good, a delivery that v admits. A
// verifier must not panic, must reject with a class, and must not admit a changed body under an unchanged header.
func FuzzVerify(f *testing.F, v webhook.Verifier, good *webhook.Request, header string) {
	f.Helper()
	if _, err := v.Verify(good); err != nil {
		f.Fatalf("the seed is refused: %v", err)
	}
	value := good.Header.Get(header)
	f.Add(value, good.Body)
	f.Add("", good.Body)
	f.Add(value+","+value, good.Body)
	f.Add(value+" "+value, good.Body)
	f.Add("t=1,v1=00,v1=,v0=,t=1", []byte("{}"))
	f.Add("v1,AA== v1a,AA== v2,", []byte("[]"))
	f.Add("sha256=00", []byte(""))
	f.Fuzz(func(t *testing.T, changed string, body []byte) {
		r := *good
		r.Header = good.Header.Clone()
		r.Header[http.CanonicalHeaderKey(header)] = []string{changed}
		r.Body = body
		_, err := v.Verify(&r)
		if err == nil && !bytes.Equal(body, good.Body) {
			t.Fatalf("a changed body is admitted with %s: %q", header, changed)
		}
		if err != nil {
			if _, ok := webhook.ClassOf(err); !ok {
				t.Fatalf("got %T, want a *webhook.Error", err)
			}
		}
	})
}

// FuzzEvents fuzzes the parsing of bodies. It must not panic, must return the same events twice, and must return only
// events that can be stored.
func FuzzEvents(f *testing.F, v webhook.Verifier, good *webhook.Request) {
	f.Helper()
	f.Add(good.Body)
	for _, body := range OddBodies() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := *good
		r.Body = body
		events := v.Events(&r)
		CheckEvents(t, events)
		if again := v.Events(&r); !reflect.DeepEqual(again, events) {
			t.Fatalf("a second reading differs:\n%+v\n%+v", events, again)
		}
	})
}
