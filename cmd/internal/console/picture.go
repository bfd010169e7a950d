package console

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/timeline"
)

// picture draws the history of an event, with one lane each for deliveries, runs, every effect, and decisions. The
// moments are evenly spaced and not drawn to scale.
type picture struct {
	Width, Height int
	Lanes         []lane
	Ticks         []tick
}

// lane is a row of the picture.
type lane struct {
	Name string
	Y    int
	Bars []bar
	Dots []dot
}

// TextY returns the position of the lane's name.
func (l lane) TextY() int { return l.Y + 12 }

// bar is a duration and dot a moment. Class is the color, and Title the text on hover.
type (
	bar struct {
		X, Width     int
		Class, Title string
	}
	dot struct {
		X            int
		Class, Title string
	}
	tick struct {
		X    int
		Text string
	}
)

const (
	nameWidth  = 190
	laneHeight = 26
	mostLanes  = 24
	mostTicks  = 8
	drawn      = 720 // the width of the lanes
)

// newPicture draws the history of an event. It returns nil if there are too few or too many moments.
func newPicture(e *timeline.Event) *picture {
	moments := momentsOf(e)
	if len(moments) < 2 || len(e.Effects) > mostLanes {
		return nil
	}
	at := func(t time.Time) int {
		i, _ := slices.BinarySearchFunc(moments, t, time.Time.Compare)
		return nameWidth + 12 + i*(drawn-24)/(len(moments)-1)
	}
	end := moments[len(moments)-1]
	p := &picture{Width: nameWidth + drawn}
	add := func(l lane) {
		l.Y = laneHeight * (len(p.Lanes) + 1)
		p.Lanes = append(p.Lanes, l)
	}
	deliveries := lane{Name: "deliveries"}
	for _, d := range e.Deliveries {
		deliveries.Dots = append(deliveries.Dots, dot{at(d.ReceivedAt), outcomeClass(d.Outcome),
			d.Outcome + " at " + output.Time(d.ReceivedAt)})
	}
	add(deliveries)
	runs := lane{Name: "runs"}
	for _, r := range e.Runs {
		until, class := end, "calm"
		if r.ClosedAt != nil {
			until, class = *r.ClosedAt, badges[r.Outcome]
		}
		runs.Bars = append(runs.Bars, newBar(at(r.StartedAt), at(until), class, r.Kind+" run: "+r.Outcome))
	}
	add(runs)
	for _, f := range e.Effects {
		until := end
		if f.DoneAt != nil {
			until = *f.DoneAt
		}
		add(lane{Name: label.StepOf(f.Kind, f.Key).Name,
			Bars: []bar{newBar(at(f.ClaimedAt), at(until), badges[f.State], f.Key+": "+f.State)}})
	}
	decisions := lane{Name: "decisions"}
	for _, s := range e.Timeline {
		if _, asked := tables.AskedOf(s); asked {
			decisions.Dots = append(decisions.Dots, dot{at(s.At), "ask", s.What + ": " + s.Detail})
		}
	}
	if len(decisions.Dots) > 0 {
		add(decisions)
	}
	p.Height = laneHeight*(len(p.Lanes)+1) + 14
	p.Ticks = ticksOf(moments, at)
	return p
}

// momentsOf returns the distinct times of the history in order.
func momentsOf(e *timeline.Event) (all []time.Time) {
	for _, d := range e.Deliveries {
		all = append(all, d.ReceivedAt)
	}
	for _, r := range e.Runs {
		all = append(all, r.StartedAt)
		if r.ClosedAt != nil {
			all = append(all, *r.ClosedAt)
		}
	}
	for _, f := range e.Effects {
		all = append(all, f.ClaimedAt)
		if f.DoneAt != nil {
			all = append(all, *f.DoneAt)
		}
	}
	for _, s := range e.Timeline {
		all = append(all, s.At)
	}
	slices.SortFunc(all, time.Time.Compare)
	return slices.CompactFunc(all, time.Time.Equal)
}

// ticksOf labels some of the moments with the time since the first one.
func ticksOf(moments []time.Time, at func(time.Time) int) (ticks []tick) {
	step := max(1, len(moments)/mostTicks)
	for i := 0; i < len(moments); i += step {
		ticks = append(ticks, tick{at(moments[i]), after(moments[i].Sub(moments[0]))})
	}
	return ticks
}

// after formats a duration briefly.
func after(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Second:
		return "+" + d.Round(time.Millisecond).String()
	case d < time.Minute:
		return "+" + d.Round(100*time.Millisecond).String()
	}
	return "+" + output.Roughly(d)
}

func newBar(from, to int, class, title string) bar {
	return bar{from, max(4, to-from), class, title}
}

func outcomeClass(outcome string) string {
	if outcome == "new" || outcome == "replay" {
		return "good"
	}
	return "dim"
}
