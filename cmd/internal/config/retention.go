package config

import (
	"errors"
	"time"
)

// Retention sets how long rows are kept that pawl does not need forever. 0 keeps them forever.
type Retention struct {
	// Payloads is how long the payload of an event is kept. The payload of an unfinished event is always kept.
	Payloads time.Duration `yaml:"payloads" default:"90d" min:"0s" zero:"counts"`
	// Redeliveries is how long the repeated deliveries of an event are listed.
	Redeliveries time.Duration `yaml:"redeliveries" default:"90d" min:"0s" zero:"counts"`
	// Runs is how long attempts, runs and interventions in Temporal are kept after their end.
	Runs time.Duration `yaml:"runs" default:"400d" min:"0s" zero:"counts"`
	// PublishedEvents is how long an event of the outbox is kept after its publication.
	PublishedEvents time.Duration `yaml:"published_events" default:"30d" min:"0s" zero:"counts"`
	// Jobs is how long a bulk job is kept after its end.
	Jobs time.Duration `yaml:"jobs" default:"90d" min:"0s" zero:"counts"`
	// Disk is the size of the database's disk. pawl then computes when the disk is full.
	Disk DiskSize `yaml:"disk"`
}

// DiskSize is the size of a disk, written like [Bytes].
type DiskSize int64

// UnmarshalText parses "500GiB" or "1000GB".
func (s *DiskSize) UnmarshalText(text []byte) error {
	if err := (*Bytes)(s).UnmarshalText(text); err != nil {
		return errors.New("write a size such as 500GiB or 1000GB")
	}
	return nil
}

// check rejects a duration that would delete rows that pawl still needs.
func (r Retention) check(c *checker, key string) {
	for _, least := range []struct {
		name     string
		set, min time.Duration
		text     string
		why      string
	}{
		// Package retention keeps each payload for 14 days after the end of its event. A suspected replay may share the
		// payload of another event for half of this time.
		{"payloads", r.Payloads, 14 * day, "14d", "suspected replays, and people who repair events, need payloads"},
		{"redeliveries", r.Redeliveries, day, "1d", "pawl counts recent deliveries to detect an event that the provider sends again and again"},
		{"runs", r.Runs, 30 * day, "30d", "Temporal keeps closed runs for about a month, and a person can reset them"},
		{"published_events", r.PublishedEvents, day, "1d", "the timeline of an event needs time to be read"},
		{"jobs", r.Jobs, day, "1d", "the outcome of a job needs time to be read"},
	} {
		if least.set != 0 && least.set < least.min {
			c.bad(key+"."+least.name, "is shorter than "+least.text+": "+least.why,
				"write "+least.text+" or more, or 0 for never")
		}
	}
}
