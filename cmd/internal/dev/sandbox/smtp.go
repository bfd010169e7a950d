package sandbox

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/mail"
	"strings"

	"github.com/emersion/go-smtp"
)

// errDropped is never sent to a client, because the connection is closed before.
var errDropped = errors.New("dropped by a fault of the sandbox")

// session is one SMTP connection. All fields except conn belong to the current message.
type session struct {
	sandbox *Sandbox
	conn    *smtp.Conn
	to      []string
}

func (s *session) Mail(string, *smtp.MailOptions) error { return s.refuse(stageMail) }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if err := s.refuse(stageRcpt); err != nil {
		return err
	}
	s.to = append(s.to, to)
	return nil
}

// refuse applies a fault of a stage before the message.
func (s *session) refuse(at stage) error {
	f := s.sandbox.take(email, at, "", "")
	s.sandbox.wait(f.latency())
	switch f.Mode {
	case modeStatus:
		return smtpStatus(f)
	case modeDropBeforeAccept:
		return s.drop()
	}
	return nil
}

func (s *session) drop() error {
	_ = s.conn.Conn().Close()
	return errDropped
}

func smtpStatus(f fault) error {
	return &smtp.SMTPError{Code: f.Status, EnhancedCode: smtp.EnhancedCode{f.Status / 100, 0, 0},
		Message: "a fault of the sandbox"}
}

// Data reads the message. Its error, or 250, is the answer to the final dot.
func (s *session) Data(r io.Reader) error {
	f := s.sandbox.take(email, stageData, "", "")
	if f.Mode == modeDropBeforeAccept {
		_, _ = io.CopyN(io.Discard, r, 64) // in the middle of the message
		return s.drop()
	}
	message, err := mail.ReadMessage(r)
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "this is no message"}
	}
	// Read to the end: a message is complete only at the final dot.
	if _, err := io.Copy(io.Discard, message.Body); err != nil {
		return err
	}
	if f.Mode == modeStatus {
		s.sandbox.wait(f.latency())
		return smtpStatus(f)
	}
	if err := s.accept(message.Header); err != nil {
		s.sandbox.log.Error("sandbox journal", "service", email, "error", err)
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0},
			Message: "the journal cannot be written"}
	}
	s.sandbox.wait(f.latency())
	switch f.Mode {
	case modeStatusAfterAccept:
		return smtpStatus(f)
	case modeDropAfterAccept:
		return s.drop()
	case modeHangAfterAccept:
		// Returns when the client gives up or the sandbox closes the connection.
		_, _ = s.conn.Conn().Read(make([]byte, 1))
		return s.drop()
	}
	return nil
}

func (s *session) accept(header mail.Header) error {
	body, err := json.Marshal(struct {
		To      string `json:"to"`
		Subject string `json:"subject"`
	}{strings.Join(s.to, ", "), decoded(header, "Subject")})
	if err != nil {
		return err
	}
	id := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(header.Get("Message-Id")), "<"), ">")
	_, err = s.sandbox.keep(email, record{Key: id, Account: decoded(header, "X-Pawl-Account"), Body: body}, false)
	return err
}

func (s *session) Reset() { s.to = nil }

func (s *session) Logout() error { return nil }

// decoded decodes the encoded words (RFC 2047) of a header.
func decoded(header mail.Header, name string) string {
	text, err := new(mime.WordDecoder).DecodeHeader(header.Get(name))
	if err != nil {
		return header.Get(name)
	}
	return text
}
