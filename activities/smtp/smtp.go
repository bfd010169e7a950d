// Package smtp submits e-mails to a mail server.
package smtp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/mail"
	"time"

	"github.com/emersion/go-sasl"
	gosmtp "github.com/emersion/go-smtp"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/ledger"
)

// mailTimeout is the timeout of each SMTP command, including the final dot. RFC 5321 §4.5.3.2.6 allows the server ten
// minutes for the response to the dot, but a worker does not wait that long.
const mailTimeout = 30 * time.Second

// TLSMode selects how the connection to the mail server is encrypted.
type TLSMode string

// The TLS modes.
const (
	StartTLS    TLSMode = "starttls" // fail if the server does not offer it
	ImplicitTLS TLSMode = "implicit"
	NoTLS       TLSMode = "none"
)

// Client submits e-mails to an SMTP server. It sends the final dot separately, because the server accepts the e-mail at
// the dot. Connections stay open for a short time, because servers limit the number of logins. A Client is safe for
// concurrent use.
type Client struct {
	// Address is host:port.
	Address  string
	TLS      TLSMode
	Username string
	Password string
	// Roots contains the certificate authorities of a private mail server. Nil means the system's authorities.
	Roots *x509.CertPool

	idle idleSessions
}

// Message is one e-mail to one recipient.
type Message struct {
	// From and To may contain a display name. The envelope contains only the address.
	From, To string
	// Data is the whole message with its headers.
	Data []byte
}

// Send submits an e-mail. It calls pointOfNoReturn after it has sent everything except the final dot. If
// pointOfNoReturn returns an error, Send returns that error and does not send the dot. After a failure before the dot,
// the server has not accepted the e-mail. After the dot, an SMTP response is definite, and any other failure is
// uncertain; see effect.Classify.
func (m *Client) Send(ctx context.Context, msg Message, pointOfNoReturn func() error) error {
	from, err := mail.ParseAddress(msg.From)
	if err != nil {
		return effect.Fault("from address of the configuration: %w", err)
	}
	to, err := mail.ParseAddress(msg.To)
	if err != nil {
		return effect.Refuse("the recipient's address is not valid") // without the address
	}
	s, err := m.begin(ctx, from.Address)
	if err != nil {
		return err
	}
	accepted := false
	defer func() { m.idle.release(s, accepted) }()
	if err := s.Rcpt(to.Address, nil); err != nil {
		return definite(rcpt, err)
	}
	body, err := s.Data()
	if err != nil {
		return definite(data, err)
	}
	if _, err := body.Write(msg.Data); err != nil {
		return definite("message", err)
	}
	if err := pointOfNoReturn(); err != nil {
		return err
	}
	if err := body.Close(); err != nil {
		_, answered := errors.AsType[*gosmtp.SMTPError](err)
		// If the write failed, the server has not received the whole final dot.
		if op, ok := errors.AsType[*net.OpError](err); answered || ok && op.Op == "write" {
			return definite(finalDot, err)
		}
		doubt := effect.Doubt("no answer to the final dot")
		doubt.Detail = err.Error()
		return doubt
	}
	accepted = true
	return nil
}

// Check connects, logs in and sends MAIL FROM. It sends no e-mail.
func (m *Client) Check(ctx context.Context, from string) error {
	sender, err := mail.ParseAddress(from)
	if err != nil {
		return effect.Fault("from address of the configuration: %w", err)
	}
	s, err := m.dial(ctx)
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.Mail(sender.Address, nil); err != nil {
		return definite("MAIL FROM", err)
	}
	_ = s.Quit() // the check is complete
	return nil
}

// begin returns a session in which the server has accepted the sender of the next e-mail.
func (m *Client) begin(ctx context.Context, from string) (*session, error) {
	for {
		s := m.idle.take(ctx)
		kept := s != nil
		if !kept {
			var err error
			if s, err = m.dial(ctx); err != nil {
				return nil, err
			}
		}
		err := s.Mail(from, nil)
		if err == nil {
			return s, nil
		}
		s.end()
		// The server may have closed an idle connection, or may close it now (421, RFC 5321 §3.8), because some servers
		// limit the e-mails per connection.
		if answer, ok := errors.AsType[*gosmtp.SMTPError](err); !kept || ok && answer.Code != 421 {
			return nil, definite("MAIL FROM", err)
		}
	}
}

// dial connects, starts TLS and authenticates. The connection closes when ctx ends.
func (m *Client) dial(ctx context.Context) (*session, error) {
	host, _, err := net.SplitHostPort(m.Address)
	if err != nil {
		return nil, effect.Fault("mail server address: %w", err)
	}
	dialled, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Address)
	if err != nil {
		return nil, effect.Broken("mail server", false, err)
	}
	conn := &boundedConn{Conn: dialled}
	s := &session{conn: conn}
	s.bind(ctx)
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: m.Roots}
	switch m.TLS {
	case ImplicitTLS:
		s.Client = gosmtp.NewClient(tls.Client(conn, config))
	case StartTLS:
		// A server without STARTTLS may be the result of a downgrade attack, so send it nothing.
		if s.Client, err = gosmtp.NewClientStartTLS(conn, config); err != nil {
			s.end()
			return nil, definite("STARTTLS", err)
		}
	default:
		s.Client = gosmtp.NewClient(conn)
	}
	s.CommandTimeout, s.SubmissionTimeout = mailTimeout, mailTimeout
	if m.Username != "" {
		if err := s.Auth(sasl.NewPlainClient("", m.Username, m.Password)); err != nil {
			s.end()
			return nil, definite(auth, err)
		}
	}
	return s, nil
}

// definite classifies a failure after which the server has not accepted the e-mail. A 5xx response is permanent (RFC
// 5321 §4.2.1). Before the recipient was sent, it is a fault of pawl; after that, the server refuses this e-mail. Every
// other failure is transient. A failed login affects every e-mail and opens the circuit breaker.
func definite(step string, err error) error {
	answer, ok := errors.AsType[*gosmtp.SMTPError](err)
	if !ok {
		return effect.Broken("mail server, "+step, false, err)
	}
	failure := effect.Fault("mail server answered %d to %s", answer.Code, step) // its text may name the recipient
	failure.Health = effect.Answered
	about := step == rcpt || step == data || step == finalDot
	switch {
	case answer.Code == 530 || step == auth && answer.Code >= 500: // RFC 4954 §4 and §6: credentials
		failure.Class, failure.Health = ledger.Transient, effect.Denied
	case answer.Code == 421 || answer.Code < 500 && !about:
		failure.Class, failure.Health = ledger.Transient, effect.Down
	case answer.Code < 500:
		failure.Class = ledger.Transient
	case about:
		failure.Class = ledger.Permanent
	}
	return failure
}

// SMTP steps. A response from RCPT TO on concerns the individual e-mail.
const (
	auth     = "AUTH"
	rcpt     = "RCPT TO"
	data     = "DATA"
	finalDot = "the final dot"
)
