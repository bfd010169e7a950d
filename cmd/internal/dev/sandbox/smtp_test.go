package sandbox_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
)

const message = "From: billing@example.com\r\nTo: a@example.com\r\n" +
	"Subject: =?utf-8?q?Re=C3=A7u?=\r\nMessage-ID: <receipt.1@example.com>\r\nX-Pawl-Account: =?UTF-8?q?acct=5F=C3=BC?=\r\n" +
	"\r\nThank you. This text is longer than what a sandbox reads before it drops the line.\r\n"

// send delivers a message on one connection, with a timeout for the response to the final dot.
func send(t *testing.T, s *sandbox.Sandbox, timeout time.Duration) error {
	t.Helper()
	conn, err := net.Dial("tcp", s.SMTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	c := smtp.NewClient(conn)
	defer func() { _ = c.Close() }()
	c.CommandTimeout, c.SubmissionTimeout = 10*time.Second, timeout
	return c.SendMail("billing@example.com", []string{"a@example.com", "b@example.com"}, strings.NewReader(message))
}

func TestEmail_Journal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	for range 2 {
		if err := send(t, s, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	lines := journal(t, dir, "email")
	if len(lines) != 2 || !lines[0].First || lines[1].First {
		t.Fatalf("journal = %+v; want two lines, the first of them first", lines)
	}
	var body map[string]string
	if err := json.Unmarshal(lines[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	if lines[0].Key != "receipt.1@example.com" || lines[0].Account != "acct_ü" ||
		len(body) != 2 || body["to"] != "a@example.com, b@example.com" || body["subject"] != "Reçu" {
		t.Errorf("line = %+v, body %s", lines[0], lines[0].Body)
	}
}

func TestFaults_Email(t *testing.T) {
	t.Parallel()
	const dropped = -1
	for name, tc := range map[string]struct {
		fault    string
		code     int // of the first attempt; 0 means success
		accepted int // the number of journal lines after the first attempt
	}{
		"4xx at MAIL":           {`{"service":"email","status":421,"smtp":"mail"}`, 421, 0},
		"4xx at RCPT":           {`{"service":"email","status":450,"smtp":"rcpt"}`, 450, 0},
		"5xx at RCPT":           {`{"service":"email","status":550,"smtp":"rcpt"}`, 550, 0},
		"4xx at the final dot":  {`{"service":"email","status":451}`, 451, 0},
		"5xx at the final dot":  {`{"service":"email","status":554,"smtp":"data"}`, 554, 0},
		"dropped at MAIL":       {`{"service":"email","mode":"drop_before_accept","smtp":"mail"}`, dropped, 0},
		"dropped before DATA":   {`{"service":"email","mode":"drop_before_accept"}`, dropped, 0},
		"dropped in mid-body":   {`{"service":"email","mode":"drop_before_accept","smtp":"data"}`, dropped, 0},
		"accepted, dropped":     {`{"service":"email","mode":"drop_after_accept"}`, dropped, 1},
		"accepted, then status": {`{"service":"email","mode":"status_after_accept","status":451}`, 451, 1},
		"slow 250":              {`{"service":"email","latency_ms":100}`, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := start(t, dir)
			fault(t, s, tc.fault)
			err := send(t, s, 10*time.Second)
			var refused *smtp.SMTPError
			switch {
			case tc.code == 0 && err != nil:
				t.Errorf("send = %v; want success", err)
			case tc.code == dropped:
				var protocol textproto.ProtocolError
				if err == nil || errors.As(err, &refused) || errors.As(err, &protocol) {
					t.Errorf("send = %v; want a closed connection", err)
				}
			case tc.code > 0 && (!errors.As(err, &refused) || refused.Code != tc.code):
				t.Errorf("send = %v; want code %d", err, tc.code)
			}
			if lines := journal(t, dir, "email"); len(lines) != tc.accepted {
				t.Errorf("the journal has %d lines; want %d", len(lines), tc.accepted)
			}
			if err := send(t, s, 10*time.Second); err != nil {
				t.Errorf("the next one: %v", err)
			}
		})
	}
}

// The client's timeout expires after the final dot. The server has accepted the e-mail, but the client cannot know
// that.
func TestFaults_Email_NoAnswerToTheFinalDot(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]string{
		"hang": `{"service":"email","mode":"hang_after_accept"}`,
		"slow": `{"service":"email","latency_ms":60000}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := start(t, dir)
			fault(t, s, f)
			err := send(t, s, 300*time.Millisecond)
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("send = %v; want a time-out", err)
			}
			eventually(t, "the mail is in the journal", func() bool { return len(journal(t, dir, "email")) == 1 })
		})
	}
}
