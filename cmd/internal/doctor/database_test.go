package doctor

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema/health"
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
