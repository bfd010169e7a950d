package ingress

import (
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// summary counts the outcomes of the events in one delivery.
type summary struct{ events, fresh, duplicates, parked, ignored int }

func (s *summary) add(o receipt.Outcome) {
	s.events++
	switch {
	case o.Duplicate:
		s.duplicates++
	case o.Status == receipt.Ignored:
		s.ignored++
	case o.Status == receipt.NeedsReview:
		s.parked++
	default:
		s.fresh++
	}
}

// outcome returns the outcome of the whole delivery: accepted if one of its events was accepted, else parked, else
// duplicate, else ignored.
func (s *summary) outcome() outcome {
	switch {
	case s.fresh > 0:
		return accepted
	case s.parked > 0:
		return parked
	case s.duplicates > 0:
		return duplicate
	case s.ignored > 0:
		return ignored
	}
	return handshake
}

// status returns 202 if a committed event runs or is parked for review, and 200 otherwise.
func (s *summary) status() int {
	if s.fresh+s.parked > 0 {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// statusOf returns the HTTP status for a rejection of class c.
func (s *Source) statusOf(c webhook.Class) int {
	switch {
	case c == webhook.TooLarge:
		return http.StatusRequestEntityTooLarge
	case c == webhook.ContentEncoding:
		return http.StatusUnsupportedMediaType
	case c == webhook.SlowBody:
		return http.StatusRequestTimeout
	case c == webhook.UnreadableBody:
		return http.StatusBadRequest
	case c.Malformed() && !s.Provider.Contract.Always401:
		return http.StatusBadRequest
	}
	return http.StatusUnauthorized
}

// confirm writes the 2xx answer. A verifier, a setting or the provider's contract may replace the default answer.
func (d *delivery) confirm(sum summary, outcomes []receipt.Outcome) error {
	if answerer, ok := d.source.Verifier.(webhook.Answerer); ok {
		if a, yes := answerer.Answer(d.r); yes {
			return reply(d.c, a)
		}
	}
	if a := d.source.acknowledgement(); a.Status != 0 {
		return reply(d.c, a)
	}
	if len(outcomes) == 1 {
		return d.c.JSON(sum.status(), single{true, outcomes[0].ReceiptID, outcomes[0].Duplicate})
	}
	return d.c.JSON(sum.status(), many{true, sum.events, sum.duplicates})
}

// acknowledgement returns the answer to an authentic delivery that the settings of the source or its provider require.
// A zero status means the default answer.
func (s *Source) acknowledgement() webhook.Answer {
	if acknowledger, ok := s.Verifier.(webhook.Acknowledger); ok {
		if a := acknowledger.Acknowledge(); a.Status != 0 {
			return a
		}
	}
	return s.Provider.Contract.Acknowledge
}

// reply writes the special answer that a provider requires. The answer may repeat bytes from the request, so the header
// nosniff prevents that a browser renders it as a page.
func reply(c echo.Context, a webhook.Answer) error {
	h := c.Response().Header()
	h.Set("X-Content-Type-Options", "nosniff")
	if a.ContentType != "" {
		h.Set("Content-Type", a.ContentType)
	}
	if len(a.Body) == 0 {
		return c.NoContent(a.Status)
	}
	c.Response().WriteHeader(a.Status)
	_, err := c.Response().Write(a.Body)
	return err
}

type single struct {
	Received  bool   `json:"received"`
	Receipt   string `json:"receipt,omitempty"`
	Duplicate bool   `json:"duplicate"`
}

type many struct {
	Received   bool `json:"received"`
	Events     int  `json:"events"`
	Duplicates int  `json:"duplicates"`
}

// retryAfter is the value of Retry-After in a 503 answer.
const retryAfter = 2 * time.Second

func unavailable(c echo.Context, class string) error {
	c.Response().Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	return answer(c, http.StatusServiceUnavailable, class)
}

// answer writes the class of a rejection and no further detail.
func answer(c echo.Context, status int, class string) error {
	return c.JSON(status, struct {
		Error string `json:"error"`
	}{class})
}
