package rejection_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func setup(t *testing.T) (*rejection.Store, *pgxpool.Pool) {
	t.Helper()
	pool := schematest.New(t)
	return rejection.New(pool), pool
}

func keep(t *testing.T, s *rejection.Store, batch ...rejection.Rejection) {
	t.Helper()
	if err := s.Keep(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, s *rejection.Store, f rejection.Filter) []rejection.Rejection {
	t.Helper()
	found, err := s.List(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// many returns n rejections of the source, one per second, the last at the current time.
func many(n int, source string, address func(i int) string) []rejection.Rejection {
	batch := make([]rejection.Rejection, n)
	for i := range batch {
		batch[i] = rejection.Rejection{Source: source, ReceivedAt: time.Now().Add(time.Duration(i-n) * time.Second),
			Class: "no_matching_signature", RemoteAddr: address(i)}
	}
	return batch
}

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// A stored request is read back byte for byte, because admitting it verifies its signature again.
func TestKeep_ByteForByte(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	at := time.Now().UTC().Truncate(time.Microsecond)
	in := rejection.Rejection{
		Source: "shop", ReceivedAt: at, Class: "no_matching_signature", Detail: "d", Likely: true,
		Diagnosis:  []rejection.Finding{{Code: "c", Text: "t"}},
		RemoteAddr: "192.0.2.1", Method: "POST", Query: "a=1",
		Header: http.Header{"X-Sig": {"a", "b"}, "X-Odd": {"\xff\x00\u00e9"}}, Body: []byte("\x00\xff{}\n"),
	}
	keep(t, s, in)
	found := list(t, s, rejection.Filter{Source: "shop"})
	if len(found) != 1 {
		t.Fatalf("kept %d, want 1", len(found))
	}
	got, err := s.Get(t.Context(), found[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Body, in.Body) || fmt.Sprintf("%q", got.Header) != fmt.Sprintf("%q", in.Header) || !got.ReceivedAt.Equal(at) {
		t.Errorf("got %q %q %s, want %q %q %s", got.Body, got.Header, got.ReceivedAt, in.Body, in.Header, at)
	}
	if got.Truncated || got.BodySize != int64(len(in.Body)) || got.Query != "a=1" || !got.Likely || got.AdmittedAt != nil || got.Diagnosis[0] != in.Diagnosis[0] {
		t.Errorf("got %+v", got)
	}
	if other := list(t, s, rejection.Filter{Source: "other"}); len(other) != 0 {
		t.Errorf("another source lists %d", len(other))
	}
}

func TestKeep_BodyIsCut(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	keep(t, s, rejection.Rejection{Source: "shop", ReceivedAt: time.Now(), Body: make([]byte, rejection.MaxBody+1)})
	listed := list(t, s, rejection.Filter{})[0]
	if len(listed.Body) > 0 {
		t.Errorf("the list contains %d bytes of the body", len(listed.Body))
	}
	got, err := s.Get(t.Context(), listed.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Body) != rejection.MaxBody || !got.Truncated || got.BodySize != rejection.MaxBody+1 {
		t.Errorf("kept %d of %d bytes, truncated %t", len(got.Body), got.BodySize, got.Truncated)
	}
}

func TestKeep_Bounds(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	old := rejection.Rejection{Source: "shop", ReceivedAt: time.Now().Add(-rejection.KeptFor - time.Hour), RemoteAddr: "old"}
	keep(t, s, old)
	keep(t, s) // a call without requests only deletes old rows
	if found, err := s.List(t.Context(), rejection.Filter{}); err != nil || len(found) != 0 {
		t.Errorf("%d kept, %v; want none", len(found), err)
	}
	likely := rejection.Rejection{Source: "shop", ReceivedAt: time.Now().Add(-time.Hour), RemoteAddr: "provider", Likely: true}
	other := rejection.Rejection{Source: "other", ReceivedAt: time.Now().Add(-2 * time.Hour), RemoteAddr: "provider"}
	keep(t, s, old, likely, other)
	keep(t, s, many(rejection.PerAddress+50, "shop", func(int) string { return "one" })...)
	count := func(where string) (n int) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), `select count(*) from rejections where `+where).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(`remote_addr = 'one'`); n != rejection.PerAddress {
		t.Errorf("one address has %d, want %d", n, rejection.PerAddress)
	}
	keep(t, s, many(rejection.PerAddress+50, "network", func(i int) string { return fmt.Sprintf("2001:db8:0:1::%x%%eth0", i) })...)
	if n := count(`source = 'network'`); n != rejection.PerAddress {
		t.Errorf("the addresses of one IPv6 network have %d, want %d", n, rejection.PerAddress)
	}
	keep(t, s, many(rejection.PerSource+50, "shop", func(i int) string { return fmt.Sprintf("address-%d", i) })...)
	if n := count(`source = 'shop'`); n != rejection.PerSource {
		t.Errorf("one source has %d, want %d", n, rejection.PerSource)
	}
	if n := count(`remote_addr = 'old'`); n != 0 {
		t.Error("an old rejection still exists")
	}
	if n := count(`likely`); n != 1 {
		t.Error("a flood displaced a rejection that is signed with our secret")
	}
	if n := count(`source = 'other'`); n != 1 {
		t.Error("a flood pushed out another source's")
	}
	newest := list(t, s, rejection.Filter{Source: "shop", Limit: 1})
	if len(newest) != 1 || newest[0].RemoteAddr != fmt.Sprintf("address-%d", rejection.PerSource+49) {
		t.Errorf("newest is %+v", newest)
	}
}

func TestMarkAdmitted_Twice_FirstTimeStays(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	keep(t, s, rejection.Rejection{Source: "shop", ReceivedAt: time.Now()})
	id := list(t, s, rejection.Filter{})[0].ID
	var times []time.Time
	for range 2 {
		if err := s.MarkAdmitted(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		times = append(times, *list(t, s, rejection.Filter{})[0].AdmittedAt)
	}
	if !times[0].Equal(times[1]) {
		t.Errorf("admitted at %s, then at %s", times[0], times[1])
	}
	for _, id := range []string{"nonsense", "00000000-0000-0000-0000-000000000001"} {
		if _, err := s.Get(t.Context(), id); !errors.Is(err, rejection.ErrNotFound) {
			t.Errorf("Get(%s): %v, want ErrNotFound", id, err)
		}
	}
}
