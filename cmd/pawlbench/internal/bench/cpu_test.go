package bench

import "testing"

func TestSpent_SincePerEvent(t *testing.T) {
	t.Parallel()
	after, before := Spent{Commits: 30, WALKB: 90, CPU: CPU{Pawl: 9, Postgres: 5, Sandbox: 2}},
		Spent{Commits: 10, WALKB: 50, CPU: CPU{Pawl: 4, Postgres: 5, Sandbox: 1}}
	if got, want := after.since(before, 2), (Spent{Commits: 10, WALKB: 20, CPU: CPU{Pawl: 2.5, Sandbox: 0.5}}); got != want {
		t.Errorf("since: %+v, want %+v", got, want)
	}
}
