package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Level says how bad a finding is.
type Level string

// The levels: as it should be, what a person should know, and what keeps events from being taken or run.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is what one check has found.
type Finding struct {
	// Area is what was examined, such as "database", and Check what about it.
	Area  string `json:"area"`
	Check string `json:"check"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	// Do says what to do about it, "" where nothing is to be done.
	Do string `json:"do,omitempty"`
}

// findings collects those of one area.
type findings struct {
	area string
	list []Finding
}

func (f *findings) add(level Level, check, do, found string, args ...any) {
	if len(args) > 0 {
		found = fmt.Sprintf(found, args...)
	}
	if level == OK {
		do = ""
	}
	f.list = append(f.list, Finding{f.area, check, level, found, do})
}

// Examination is one thing to examine. Examine may find several things, and stops when its context ends.
type Examination struct {
	Area string
	// Name is the check that has no answer where Examine gives none.
	Name    string
	Examine func(context.Context) []Finding
	// Do is what to do where Examine gives no answer.
	Do string
}

// Examine examines all of them at once and returns what was found, in their order. Each has within at most: one that
// has not answered then is a finding itself, also where it does not heed its context.
func Examine(ctx context.Context, within time.Duration, all []Examination) []Finding {
	found := make([][]Finding, len(all))
	var examining sync.WaitGroup
	for i, e := range all {
		examining.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			answer := make(chan []Finding, 1)
			go func() { answer <- e.Examine(ctx) }()
			// What ends with its context says more than that it has ended: it has a moment to do so.
			late := time.NewTimer(within + time.Second)
			defer late.Stop()
			select {
			case found[i] = <-answer:
			case <-late.C:
				found[i] = []Finding{{e.Area, cmp.Or(e.Name, "reachable"), Fail,
					fmt.Sprintf("gave no answer within %s", within), e.Do}}
			}
		})
	}
	examining.Wait()
	return slices.Concat(found...)
}
