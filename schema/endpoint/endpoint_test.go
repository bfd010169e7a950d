package endpoint_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/endpoint"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// A finding keeps the time when it was first found, and only the first check returns it as new. The period in which
// an endpoint was disabled begins with the last check that found it enabled, and ends with the next check that finds
// it enabled.
func TestKeep_SinceAndWindow(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	begin := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	off, unsent := endpoint.Finding{Kind: endpoint.Off, Message: "off"}, endpoint.Finding{Kind: endpoint.Unsent, Message: "a"}
	for i, look := range []struct {
		found []endpoint.Finding
		fresh int
	}{{nil, 0}, {[]endpoint.Finding{unsent}, 1}, {[]endpoint.Finding{unsent, off}, 1}, {[]endpoint.Finding{off}, 0}, {nil, 0}, {nil, 0}} {
		e, fresh, err := endpoint.Keep(t.Context(), pool, "stripe", look.found, begin.Add(time.Duration(i)*time.Hour))
		if err != nil || len(fresh) != look.fresh {
			t.Fatalf("look %d: new are %v, %v, want %d", i, fresh, err, look.fresh)
		}
		if i == 2 && !e.Findings[0].Since.Equal(begin.Add(time.Hour)) {
			t.Errorf("it is so since %v, want since the look that found it first", e.Findings[0].Since)
		}
		if i == 3 && e.OffUntil != nil {
			t.Errorf("off until %v, while it is off", e.OffUntil)
		}
	}
	for about, want := range map[string]int{"2027-03-31.fennel": 1, "2027-09-30.garlic": 1} {
		version := []endpoint.Finding{{Kind: endpoint.Version, About: about}}
		for _, want := range []int{want, 0} {
			if _, fresh, err := endpoint.Keep(t.Context(), pool, "other", version, begin); err != nil || len(fresh) != want {
				t.Errorf("version %s: new are %v, %v, want %d", about, fresh, err, want)
			}
		}
	}
	all, err := endpoint.All(t.Context(), pool, []string{"stripe", "none"})
	if err != nil || len(all) != 1 || len(all[0].Findings) != 0 || !all[0].OffSince.Equal(begin.Add(time.Hour)) ||
		!all[0].OffUntil.Equal(begin.Add(4*time.Hour)) {
		t.Errorf("kept %+v, %v; want it off from 13:00 to 16:00", all, err)
	}
}
