package audit_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawlhq/pawl/schema/audit"
)

// Each change of a person is recorded once, with the previous and the new roles. A person who returns is added again.
func TestSetPeople_RecordsEachChangeOnce(t *testing.T) {
	b := setup(t)
	for _, now := range []map[string][]string{
		{"ada": {"admin"}, "bob": {"viewer"}},
		{"ada": {"admin"}, "bob": {"viewer"}},
		{"ada": {"admin"}, "bob": {"finance", "reveal"}},
		{"ada": {"admin"}},
		{"ada": {"admin"}, "bob": {"viewer"}},
	} {
		if err := b.store.SetPeople(t.Context(), "console.users", "read by the console", now); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := b.store.List(t.Context(), audit.Filter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(r.Action, " ", r.Target, " ", string(r.Before), " ", string(r.After), " ", r.Actor))
	}
	slices.Reverse(got)
	want := []string{
		`add-person ada {} {"roles": ["admin"]} console.users`,
		`add-person bob {} {"roles": ["viewer"]} console.users`,
		`change-person bob {"roles": ["viewer"]} {"roles": ["finance", "reveal"]} console.users`,
		`remove-person bob {"roles": ["finance", "reveal"]} {} console.users`,
		`add-person bob {} {"roles": ["viewer"]} console.users`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the trail has %q, want %q", got, want)
	}
	people, err := b.store.People(t.Context())
	if err != nil || len(people) != 2 {
		t.Fatalf("%+v, %v", people, err)
	}
	for i, want := range []struct {
		name string
		row  int
	}{{"ada", 4}, {"bob", 0}} {
		p := people[i]
		if p.Name != want.name || p.Removed || !p.AddedAt.Equal(rows[want.row].At) || !p.ChangedAt.Equal(p.AddedAt) {
			t.Errorf("%+v, want %s, added at %s", p, want.name, rows[want.row].At)
		}
	}
	b.verify(5)
}

// Two consoles that report the same change at the same time record it once.
func TestSetPeople_Concurrent_Once(t *testing.T) {
	b := setup(t)
	done := make(chan error)
	for range 4 {
		go func() {
			done <- b.store.SetPeople(t.Context(), "console.users", "x", map[string][]string{"ada": {"admin"}})
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	b.verify(1)
}
