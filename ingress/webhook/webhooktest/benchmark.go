package webhooktest

import (
	"bytes"
	"testing"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Benchmark measures the cost of one delivery of 1.2 KB before it is stored: verifying it with the second of two
// secrets, and parsing its envelope. in needs no secret and no time.
func Benchmark(b *testing.B, p webhook.Provider, other, secret string, in webhook.SignInput) {
	b.Helper()
	v, err := p.New(webhook.Settings{Source: "s",
		Secrets: []webhook.Secret{{Label: "other", Value: other}, {Label: "used", Value: secret}}})
	if err != nil {
		b.Fatal(err)
	}
	in.Secret, in.At = secret, now
	// The padding makes the object as large as a typical one.
	in.Body = append(bytes.TrimSuffix(in.Body, []byte("}")), `,"padding":["`...)
	for len(in.Body) < 1200 {
		in.Body = append(in.Body, `some text of the object","`...)
	}
	in.Body = append(in.Body, `"]}`...)
	out, err := p.Sign(in)
	if err != nil {
		b.Fatal(err)
	}
	r := request(out)
	b.SetBytes(int64(len(r.Body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(r); err != nil {
			b.Fatal(err)
		}
		if events := v.Events(r); len(events) != 1 || events[0].Problem != "" {
			b.Fatalf("events %+v", events)
		}
	}
}
