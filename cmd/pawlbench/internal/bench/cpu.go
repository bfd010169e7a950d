package bench

import (
	"cmp"
	"fmt"
	"os"
	"syscall"
	"time"
)

// CPU is the CPU time of an event in milliseconds, by part, read from the parts' processes.
type CPU struct {
	Pawl     float64 `json:"pawl"`
	Postgres float64 `json:"postgres"`
	Temporal float64 `json:"temporal"`
	// TemporalPostgres is 0 on the dev server.
	TemporalPostgres float64 `json:"temporal_postgres"`
	// Sandbox is the benchmark's own process: the sandbox, the sending client, and the worker of "naive" and "floor".
	Sandbox float64 `json:"sandbox"`
}

// cpu returns the CPU time of each part so far. It returns zeros on systems without /proc.
func (s *stack) cpu() (c CPU, err error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return CPU{}, nil // one figure less; the others are valid
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return CPU{}, fmt.Errorf("read our own CPU time: %w", err)
	}
	c.Sandbox = milliseconds(time.Duration(self.Utime.Nano() + self.Stime.Nano()))
	read := func(to *float64, from interface{ CPU() (time.Duration, error) }) {
		took, failed := from.CPU()
		*to, err = *to+milliseconds(took), cmp.Or(err, failed)
	}
	for _, child := range s.children {
		read(&c.Pawl, child.proc)
	}
	read(&c.Postgres, s.postgres)
	read(&c.Temporal, s.temporal)
	if s.temporalPostgres != nil {
		read(&c.TemporalPostgres, s.temporalPostgres)
	}
	return c, err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
