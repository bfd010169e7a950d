package flowversion_test

import (
	"errors"
	"testing"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/flowversion"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A stored version is returned by its hash, and a second process with the same version changes nothing.
func TestStore(t *testing.T) {
	t.Parallel()
	s := flowversion.New(schematest.New(t))
	v := flowversion.Version{Hash: "abc", Name: "ship-order", Body: []byte(`{"name": "ship-order"}`)}
	for range 2 {
		if err := s.Save(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Get(t.Context(), "abc")
	if err != nil || got.Name != v.Name || string(got.Body) != string(v.Body) {
		t.Errorf("got %+v, %v, want %+v", got, err, v)
	}
	if _, err := s.Get(t.Context(), "other"); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("an unknown version: %v", err)
	}
}
