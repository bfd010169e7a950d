package api

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/account"
)

// access returns the access of an account. A client may cache the response for as long as pawl caches the access. The
// Age header contains the time that the response has already spent in pawl's cache, so that the two caching times do
// not add up.
func (c *call) access() error {
	id, mode, err := c.about()
	if err != nil {
		return err
	}
	e, age, err := c.Accesses.Read(c.ctx(), id, mode)
	if err != nil {
		return err
	}
	representation, sum := e.Representation()
	tag := `"` + sum + `"`
	holds := account.AccessFresh
	if ends := e.Ends(time.Now()); ends >= 0 {
		holds = min(holds, age+ends)
	}
	h := c.Response().Header()
	h.Set("ETag", tag)
	h.Set("Vary", "Authorization, Cookie")
	h.Set("Age", strconv.FormatFloat(math.Ceil(age.Seconds()), 'f', 0, 64))
	h.Set("Cache-Control", fmt.Sprintf("private, max-age=%d, stale-if-error=%d", int(holds.Seconds()),
		int(c.Config.API.StaleIfError.Seconds())))
	if matches(c.Request().Header.Values("If-None-Match"), tag) {
		return c.NoContent(http.StatusNotModified)
	}
	return c.JSONBlob(http.StatusOK, representation)
}

// matches reports whether the If-None-Match headers contain the tag. It uses weak comparison (RFC 9110, 13.1.2).
func matches(headers []string, tag string) bool {
	for _, h := range headers {
		for one := range strings.SplitSeq(h, ",") {
			if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}
