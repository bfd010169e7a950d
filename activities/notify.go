package activities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/activities/letters"
	"github.com/pawlhq/pawl/activities/smtp"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/money"
	"github.com/pawlhq/pawl/schema/notice"
)

// NotifySink sends notifications to one recipient: by e-mail if Mailer is set, and otherwise by a POST to URL.
type NotifySink struct {
	// Name begins with "notify:".
	Name   string
	URL    string
	Token  string
	Client *http.Client
	// Slack selects Slack's message format instead of JSON.
	Slack    bool
	Mailer   *smtp.Client
	From, To string
	// PagesOnly drops every notification that is not a page.
	PagesOnly bool
	// Runbooks is the base URL of docs/operations.
	Runbooks string
	Policy   effect.Policy
}

// NotifySinks sends the stored notifications.
type NotifySinks struct {
	Effects *effect.Runner
	Notices *notice.Store
}

// recordNotice is the timeout for recording a sent notification.
const recordNotice = 5 * time.Second

// SendNext sends the next notification of a sink and reports whether there was one. If the process dies between sending
// and recording, the notification is sent again with the same key after the lease. An error means a failure of pawl's
// database.
func (n *NotifySinks) SendNext(ctx context.Context, s NotifySink) (found bool, err error) {
	m, found, err := n.Notices.Take(ctx, s.Name, s.Policy.Timeout+2*recordNotice)
	if err != nil || !found {
		return false, err
	}
	call := effect.Call{Key: m.Key, Kind: "notice", Ref: event.Ref{EventID: m.Key}}
	err = n.Effects.Send(ctx, call, s.Policy, func(ctx context.Context) error { return s.Tell(ctx, m) })
	// Record the outcome even if the process is shutting down.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordNotice)
	defer cancel()
	if err == nil {
		return true, n.Notices.Sent(ctx, m)
	}
	wait, more := s.Policy.Wait(err, m.Attempts, m.Age)
	if failure, ok := errors.AsType[*effect.Failure](err); ok {
		err = failure.Err // without the text of the sink
	}
	return true, n.Notices.Again(ctx, m, wait, more, err.Error())
}

// Tell sends a notification once. Errors contain only the host, because the URL may be a secret.
func (s NotifySink) Tell(ctx context.Context, m notice.Message) error {
	m.Message, m.Command = letters.Line(m.Message), letters.Line(m.Command)
	if s.Mailer != nil {
		data, err := s.compose(m)
		if err != nil {
			return effect.Fault("compose the e-mail: %w", err)
		}
		// Ignore the point of no return: a duplicate e-mail is better than a lost e-mail.
		return s.Mailer.Send(ctx, smtp.Message{From: s.From, To: s.To, Data: data}, func() error { return nil })
	}
	body, err := json.Marshal(s.body(m))
	if err != nil {
		return effect.Fault("encode the message: %w", err)
	}
	header := httpcall.Header(httpcall.HeaderText(m.Key), s.Token)
	got, err := httpcall.Do(ctx, s.Client, http.MethodPost, s.URL, header, body)
	if got == nil {
		return err
	}
	if failure := effect.FromStatus(got.Response, "", time.Now()); failure != nil {
		return failure
	}
	return nil
}

func (s NotifySink) body(m notice.Message) any {
	if s.Slack {
		// Slack requires these three escapes (docs.slack.dev/messaging/formatting-message-text).
		escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
		return map[string]string{"text": "*" + escape(subject(m)) + "*\n" + escape(s.text(m))}
	}
	m.Command, m.Runbook = command(m), s.runbook(m)
	return m
}

func subject(m notice.Message) string {
	word := string(m.Severity)
	if m.Over != nil {
		word = "over"
	}
	return fmt.Sprintf("[pawl %s] %s", word, m.Message)
}

// text returns the lines after the subject: since when the condition exists, the amounts, and the action to take.
func (s NotifySink) text(m notice.Message) string {
	const at = "2006-01-02 15:04 MST"
	lines := []string{"since " + m.Since.UTC().Format(at)}
	if m.Over != nil {
		lines[0] += ", over since " + m.Over.UTC().Format(at)
	}
	var sums []string
	for _, currency := range slices.Sorted(maps.Keys(m.Money)) {
		sums = append(sums, money.Format(m.Money[currency], currency))
	}
	if len(sums) > 0 {
		lines = append(lines, "money: "+strings.Join(sums, " + "))
	}
	return strings.Join(append(lines, command(m), s.runbook(m)), "\n")
}

func command(m notice.Message) string { return "pawl " + m.Command }

func (s NotifySink) runbook(m notice.Message) string { return s.Runbooks + "/" + m.Runbook + ".md" }

// compose renders the e-mail. Every attempt has the same bytes.
func (s NotifySink) compose(m notice.Message) ([]byte, error) {
	msg := mail.NewMsg()
	if err := cmp.Or(msg.From(s.From), msg.To(s.To)); err != nil {
		return nil, err
	}
	msg.SetMessageIDWithValue(messageID(m.Key, s.From))
	msg.SetDateWithValue(m.At)
	msg.Subject(subject(m))
	msg.SetBodyString(mail.TypeTextPlain, m.Message+"\n\n"+s.text(m)+"\n")
	var out bytes.Buffer
	if _, err := msg.WriteTo(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
