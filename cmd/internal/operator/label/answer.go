package label

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

var (
	classOfError = regexp.MustCompile(`^(fault|transient|permanent|ambiguous|exhausted): `)
	httpAnswer   = regexp.MustCompile(`^\S+ answered (\d{3})\b`)
	server       = regexp.MustCompile(`^(\S+:\d+|mail server)(, [^:]+)?: `)
)

// Answer describes the last answer of a sink as a sentence without a period, from the error of an attempt. It omits the
// address of the sink. It returns "" for an empty error.
func Answer(sink, failure string) string {
	text := classOfError.ReplaceAllString(failure, "")
	text, detail, _ := strings.Cut(text, " – ")
	who := Sink(sink)
	if found := httpAnswer.FindStringSubmatch(text); found != nil {
		status, _ := strconv.Atoi(found[1])
		says := who + " answered " + strings.TrimSpace(found[1]+" "+http.StatusText(status))
		if detail != "" && len(detail) <= longestDetail {
			says += " (" + detail + ")"
		}
		return says
	}
	rest := server.ReplaceAllString(text, "")
	switch {
	case text == "":
		return ""
	case strings.HasPrefix(text, "no answer to the final dot"):
		return "The mail server closed the connection before it confirmed the e-mail"
	case strings.HasPrefix(text, "mail server answered "):
		return "The " + text
	case rest == "no answer in time":
		return who + " did not answer in time"
	case rest == "cannot be reached":
		return who + " cannot be reached"
	case rest == "the connection broke":
		return "The connection to " + lower(who) + " broke"
	}
	return upper(text)
}

// longestDetail is the length of the longest text of a sink that a sentence quotes.
const longestDetail = 80

// lower returns the name of a sink within a sentence.
func lower(who string) string {
	if rest, is := strings.CutPrefix(who, "The "); is {
		return "the " + rest
	}
	return who
}
