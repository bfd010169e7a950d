package receipt_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/receipt"
)

// A source is silent only in comparison with its own history: the report omits a source that delivers only at
// weekends, a new source and a slow source.
func TestSilent_ByTheHoursOfTheWeek(t *testing.T) {
	t.Parallel()
	_, pool := setup(t)
	for source, hours := range map[string]string{
		"busy":    `n >= 3`,                    // 20 deliveries per hour for weeks, and no delivery for two hours
		"late":    `n >= 1`,                    // 20 deliveries per hour, until an hour ago
		"new":     `n >= 3 and n < 13 * 24`,    // less than two weeks of history
		"slow":    `n % 24 = 6`,                // 20 deliveries per day at one hour, and the next is not due
		"by week": `n % 168 between 60 and 70`, // on one day of the week, which has not ended
		"gone":    `n >= 24 * 9`,               // no delivery for nine days
	} {
		if _, err := pool.Exec(t.Context(), `insert into source_hours select $1, date_trunc('hour', now()) - n * interval '1 hour', 20
			from generate_series(0, 28 * 24) n where `+hours, source); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), `insert into source_counts select $1, 'admitted', 's', now(), 1, max(hour) from source_hours where source = $1`, source); err != nil {
			t.Fatal(err)
		}
	}
	silent, err := receipt.Silent(t.Context(), pool, []string{"busy", "late", "new", "slow", "by week", "gone", "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]int{}
	for _, s := range silent {
		expected[s.Source] = s.Expected
	}
	// Two full hours have passed since the last delivery of busy.
	if len(expected) != 2 || expected["busy"] != 40 || expected["gone"] < 1000 {
		t.Errorf("silent are %v, want busy with 40 and gone", expected)
	}
}
