package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/health"
	"github.com/pawlhq/pawl/schema/retention"
)

// A deployment starts new processes before it stops the old ones, so the doctor warns before the server rejects their
// connections.
func TestConnections_RoomForOneMoreOfEachProcess(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		taken, most int
		want        Level
	}{{49, 97, OK}, {50, 97, Warn}, {97, 97, Warn}, {249, 297, OK}, {250, 297, Warn}} {
		f := &findings{}
		f.connections(health.Server{Connections: tt.taken, Most: tt.most})
		got := f.list[0]
		if got.Level != tt.want || (got.Do == "") != (tt.want == OK) {
			t.Errorf("%d of %d taken: %+v, want %s", tt.taken, tt.most, got, tt.want)
		}
		if tt.want == Warn && !strings.Contains(got.Do, "An ingress uses up to 8, a worker 24, a console 12, a command 4") {
			t.Errorf("%d of %d taken: %q does not state the budget of each process", tt.taken, tt.most, got.Do)
		}
	}
}

// A disk that is full within two weeks is a warning, with time to act.
func TestGrowth_DiskFullSoon_Warned(t *testing.T) {
	t.Parallel()
	now, grows := time.Now(), int64(3<<30)
	soon, late := time.Now().Add(13*24*time.Hour), time.Now().Add(15*24*time.Hour)
	for name, tt := range map[string]struct {
		state *retention.State
		err   error
		want  Level
		found string
	}{
		"before the first run": {nil, nil, OK, "known a day after"},
		"on the first day":     {&retention.State{MeasuredAt: now}, nil, OK, "known a day after"},
		"no disk is set":       {&retention.State{MeasuredAt: now, GrowthPerDay: &grows}, nil, OK, "3.0 GiB a day"},
		"full soon":            {&retention.State{MeasuredAt: now, GrowthPerDay: &grows, DiskFullAt: &soon}, nil, Warn, "the disk is full at " + soon.Local().Format("2006-01-02")},
		"full later":           {&retention.State{MeasuredAt: now, GrowthPerDay: &grows, DiskFullAt: &late}, nil, OK, "the disk is full at " + late.Local().Format("2006-01-02")},
		"no run for hours":     {&retention.State{MeasuredAt: now.Add(-7 * time.Hour)}, nil, Warn, "old rows are not deleted"},
		"unreadable":           {nil, errors.New("no"), Fail, "no"},
	} {
		f := &findings{}
		f.growth(tt.state, tt.err)
		if got := f.list[0]; got.Level != tt.want || !strings.Contains(got.Found, tt.found) || (got.Do == "") != (tt.want == OK) {
			t.Errorf("%s: %+v, want %s with %q", name, got, tt.want, tt.found)
		}
	}
}
