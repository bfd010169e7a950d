package bench

import (
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
	// Sandbox is the benchmark's own process: the sandbox, the client that sends, and the worker of "naive" and
	// "floor".
	Sandbox float64 `json:"sandbox"`
}

// parts returns the CPU's fields, in the order of the table's columns.
func (c *CPU) parts() []*float64 {
	return []*float64{&c.Pawl, &c.Postgres, &c.Temporal, &c.TemporalPostgres, &c.Sandbox}
}

// cpu returns the CPU time that each part has taken so far, for this many events. It is all
// zero on systems without /proc.
func (s *stack) cpu(events int) (c CPU, err error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return CPU{}, nil // a figure less; the others hold
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return CPU{}, fmt.Errorf("read our own CPU time: %w", err)
	}
	add := func(to *float64, took time.Duration) {
		*to += float64(took) / float64(time.Millisecond) / float64(events)
	}
	add(&c.Sandbox, time.Duration(self.Utime.Nano()+self.Stime.Nano()))
	type part interface {
		CPU() (time.Duration, error)
	}
	read := func(to *float64, from part) {
		took, failed := from.CPU()
		if failed != nil {
			err = failed
		}
		add(to, took)
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

// since returns the difference to an earlier reading.
func (c CPU) since(before CPU) CPU {
	for i, field := range before.parts() {
		*c.parts()[i] -= *field
	}
	return c
}

// cpuMedian returns the median of each part over the rounds.
func cpuMedian(rounds []FlowResult) (c CPU) {
	for i, field := range c.parts() {
		*field = medianOf(rounds, func(r FlowResult) float64 { return *r.CPU.parts()[i] })
	}
	return c
}
