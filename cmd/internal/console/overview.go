package console

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/timeline"
)

// overviewPage shows the number of deliveries, the duration of effects, and the waiting work.
type overviewPage struct {
	Mode   modeSwitch
	Charts []chart
	// Speeds contains the figures of the second chart.
	Speeds shownTable
	Parts  []shownTable
}

func (overviewPage) renews() bool { return true }

// chart is a bar chart with the same figures as text.
type chart struct {
	// Caption contains the figures. None is the text for a chart without data.
	Title, Caption, None string
	Width, Height        int
	Bars                 []chartBar
	Texts                []chartText
}

type (
	chartBar struct {
		X, Y, Width, Height int
		Class, Title        string
	}
	chartText struct {
		X, Y int
		Text string
	}
)

func (s *Server) overview(v *visit) error {
	r, err := report.ReadStatus(v.ctx(), s.Config, s.Operator)
	if err != nil {
		return err
	}
	pace, err := timeline.ReadPace(v.ctx(), s.Operator.DB)
	if err != nil {
		return err
	}
	now := time.Now()
	page := overviewPage{Mode: modeOf(v, r), Speeds: newTable(tables.Speeds(pace.Speeds)),
		Charts: []chart{hoursChart(pace.Hours, now), speedsChart(pace.Speeds)}}
	for _, rows := range tables.Status(r, now) {
		if len(rows) > 1 { // omit empty tables
			page.Parts = append(page.Parts, newTable(rows))
		}
	}
	return s.render(v, http.StatusOK, "overview", "Overview", page)
}

const (
	chartWidth  = 720
	chartHeight = 130
)

// hoursChart draws the deliveries per minute for each hour.
func hoursChart(hours []timeline.Hour, now time.Time) chart {
	c := chart{Title: "Events a minute, in the last 24 hours", None: "No event has arrived in the last 24 hours.",
		Width: chartWidth, Height: chartHeight + 20}
	rates := make([]float64, len(hours))
	for i, h := range hours {
		minutes := min(now.Sub(h.At), time.Hour).Minutes()
		rates[i] = float64(h.Deliveries) / max(minutes, 1)
	}
	most := slices.Max(rates)
	if most == 0 {
		return c
	}
	at := slices.Index(rates, most)
	last := len(rates) - 1
	c.Caption = fmt.Sprintf("%s a minute in this hour, %s in the hour before; at most %s, in the hour from %s.",
		few(rates[last]), few(rates[last-1]), few(most),
		hours[at].At.Local().Format("15:04 MST"))
	step := chartWidth / len(rates)
	c.Texts = append(c.Texts, chartText{0, 12, few(most) + " a minute"})
	for i, rate := range rates {
		from := hours[i].At.Local().Format("15:04")
		height := int(math.Ceil(rate / most * (chartHeight - 20)))
		c.Bars = append(c.Bars, chartBar{i*step + 2, chartHeight - height, step - 4, height, "calm",
			"from " + from + ": " + few(rate) + " a minute"})
		if i%4 == 0 {
			c.Texts = append(c.Texts, chartText{i * step, chartHeight + 15, from})
		}
	}
	return c
}

// few formats a number with few digits.
func few(n float64) string {
	if n >= 10 {
		return strconv.FormatFloat(math.Round(n), 'f', 0, 64)
	}
	return strconv.FormatFloat(math.Round(n*10)/10, 'f', -1, 64)
}

// speedsChart draws the duration of effects. The slowest bar has the full width.
func speedsChart(speeds []timeline.Speed) chart {
	c := chart{Title: "Time from an event's receipt to its effects",
		None: "No effect of the newest events is done yet.", Width: nameWidth + chartWidth}
	most := 0.0
	for _, s := range speeds {
		most = max(most, s.Most)
	}
	for i, s := range speeds {
		y := i * laneHeight
		median, slow := output.Seconds(s.Median), output.Seconds(s.Most)
		name := label.KindOf(s.Kind).Name
		c.Texts = append(c.Texts, chartText{0, y + 13, name})
		wide := func(n float64) int { return max(2, int(n/max(most, 0.001)*(chartWidth-160))) }
		title := fmt.Sprintf("%s, %s: p50 %s, p95 %s", name, output.Plural(s.Effects, "time"), median, slow)
		c.Bars = append(c.Bars, chartBar{nameWidth, y, wide(s.Most), 16, "most", title},
			chartBar{nameWidth, y, wide(s.Median), 16, "calm", title})
		c.Texts = append(c.Texts, chartText{nameWidth + wide(s.Most) + 8, y + 13, median + " · " + slow})
	}
	if len(speeds) > 0 {
		c.Caption = fmt.Sprintf("The dark bar ends at the median (p50), the light bar at p95, of the newest %d events.",
			timeline.MostPaced)
	}
	c.Height = len(speeds) * laneHeight
	return c
}
