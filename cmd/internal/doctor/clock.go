package doctor

import (
	"context"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/cmd/internal/output"
)

// The clock skew at which doctor reports a warning and a failure. Most signatures contain a time and are valid for
// five minutes. If a source sets no tolerance, it therefore rejects deliveries when the skew reaches failSkew.
const (
	warnSkew = 5 * time.Second
	failSkew = 5 * time.Minute
)

// databaseClock compares the clock of this host with the clock of the database. The clock of the database determines
// leases and scheduled actions.
func (d *Doctor) databaseClock(ctx context.Context, f *findings) error {
	var theirs time.Time
	begin := time.Now()
	if err := d.Pool.QueryRow(ctx, `select clock_timestamp()`).Scan(&theirs); err != nil {
		return err
	}
	f.skew("database", theirs, begin, time.Since(begin), failSkew)
	return nil
}

// providerClock compares the clock of this host with the Date header of the provider's API.
func (d *Doctor) providerClock(name string) func(context.Context, *findings) error {
	s := d.Config.Sources[name]
	return func(ctx context.Context, f *findings) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodHead, s.APIURL, nil)
		if err != nil {
			return err
		}
		const do = "check the source's api_url, and that this host may call it"
		client := httpcall.NewClient()
		defer client.CloseIdleConnections()
		begin := time.Now()
		resp, err := client.Do(req)
		if err != nil {
			f.add(Warn, name, do, "%s", output.FirstLine(err))
			return nil
		}
		took := time.Since(begin)
		_ = resp.Body.Close()
		theirs, err := http.ParseTime(resp.Header.Get("Date"))
		if err != nil {
			f.add(Warn, name, do, "its response has no Date header")
			return nil
		}
		most := failSkew
		if s.Tolerance > 0 {
			most = s.Tolerance
		}
		// The Date header has a resolution of one second. On average the real time is half a second later.
		f.skew(name, theirs.Add(500*time.Millisecond), begin, took, most)
		return nil
	}
}

// skew adds a finding about a clock. The clock was read at an unknown moment between begin and begin + took, and its
// time was theirs.
func (f *findings) skew(check string, theirs, begin time.Time, took, most time.Duration) {
	skew := begin.Add(took / 2).Sub(theirs)
	off, word := skew.Abs()-took/2, "ahead of"
	if skew < 0 {
		word = "behind"
	}
	const do = "synchronize the clock of this host (NTP): providers sign the time of a delivery"
	difference := "the clock of this host is " + skew.Abs().Round(time.Second).String() + " " + word + " it"
	switch {
	case off > most:
		f.add(Fail, check, do+", and pawl refuses a delivery if the difference exceeds "+most.String(), "%s",
			difference)
	case off > warnSkew:
		f.add(Warn, check, do, "%s", difference)
	default:
		f.add(OK, check, "", "the clocks agree")
	}
}
