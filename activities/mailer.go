package activities

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/mail"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/ledger"
)

// mailTimeout bounds each SMTP command, the final dot included: RFC 5321 §4.5.3.2.6 grants a server ten
// minutes for its answer to that one, and a worker does not wait that long.
const mailTimeout = 30 * time.Second

// TLSMode says how the connection to the mail server is protected.
type TLSMode string

// The TLS modes.
const (
	StartTLS    TLSMode = "starttls" // refuse to go on when the server does not offer it
	ImplicitTLS TLSMode = "implicit"
	NoTLS       TLSMode = "none"
)

// Mailer hands mails to an SMTP server. It uses a protocol client that lets the final dot be sent apart,
// because that dot is where a mail stops being ours. Connections are kept for the next mail for a moment: the
// receipts of a month's first day would else be thousands of logins, which servers count. It is safe for
// concurrent use.
type Mailer struct {
	// Address is host:port.
	Address  string
	TLS      TLSMode
	Username string
	Password string
	// Roots trusts a mail server of a private authority; nil is the system's.
	Roots *x509.CertPool

	idle idleSessions
}

// Message is one mail to one recipient.
type Message struct {
	// From and To may carry a display name; only the address goes into the envelope.
	From, To string
	// Data is the whole message with its headers.
	Data []byte
}

// Send hands the mail over. pointOfNoReturn is called when everything but the final dot has been sent:
// if it fails, the mail is not sent and its error is returned. Before that point every failure means
// that the mail was not taken. After it, an answer of the server is a definite answer, and anything
// else is in doubt; see effect.Classify.
func (m *Mailer) Send(ctx context.Context, msg Message, pointOfNoReturn func() error) error {
	from, err := mail.ParseAddress(msg.From)
	if err != nil {
		return effect.Fault("from address of the configuration: %w", err)
	}
	to, err := mail.ParseAddress(msg.To)
	if err != nil {
		return effect.Refuse("the recipient is no valid address") // the address stays out of the error
	}
	s, err := m.begin(ctx, from.Address)
	if err != nil {
		return err
	}
	taken := false
	defer func() { m.idle.release(s, taken) }()
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
		_, answered := errors.AsType[*smtp.SMTPError](err)
		// A write that fails has not handed over its last byte, so that the server has not seen the whole dot.
		if op, ok := errors.AsType[*net.OpError](err); answered || ok && op.Op == "write" {
			return definite(finalDot, err)
		}
		doubt := effect.Doubt("no answer to the final dot")
		doubt.Said = err.Error()
		return doubt
	}
	taken = true
	return nil
}

// Check reaches the server, logs in and says who sends; no mail is sent.
func (m *Mailer) Check(ctx context.Context, from string) error {
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
	_ = s.Quit() // it has said all that was asked
	return nil
}

// begin returns a session that has taken from as the sender of the next mail.
func (m *Mailer) begin(ctx context.Context, from string) (*session, error) {
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
		// The server may have ended a kept connection, or be about to (421, RFC 5321 §3.8): some take so many mails on
		// one.
		if answer, ok := errors.AsType[*smtp.SMTPError](err); !kept || ok && answer.Code != 421 {
			return nil, definite("MAIL FROM", err)
		}
	}
}

// dial connects, protects and authenticates. The connection ends with ctx.
func (m *Mailer) dial(ctx context.Context) (*session, error) {
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
		s.Client = smtp.NewClient(tls.Client(conn, config))
	case StartTLS:
		// A server without STARTTLS may be a stripped one: nothing is sent to it.
		if s.Client, err = smtp.NewClientStartTLS(conn, config); err != nil {
			s.end()
			return nil, definite("STARTTLS", err)
		}
	default:
		s.Client = smtp.NewClient(conn)
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

// definite classifies a failure that leaves no doubt that the mail was not taken. A 5xx answer will be given again
// (RFC 5321 §4.2.1): before there is a recipient it is about us, and a fault, and then about this letter. Everything
// else may pass; that we are not let in is for everything that would be sent, and waits for its mend.
func definite(step string, err error) error {
	answer, ok := errors.AsType[*smtp.SMTPError](err)
	if !ok {
		return effect.Broken("mail server, "+step, false, err)
	}
	failure := effect.Fault("mail server answered %d to %s", answer.Code, step) // its text may name the recipient
	failure.Health = effect.Answered
	about := step == rcpt || step == data || step == finalDot
	switch {
	case answer.Code == 530 || step == auth && answer.Code >= 500: // RFC 4954 §4 and §6: what we are known by
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

// The steps that answers are told apart by: those from the recipient on are about the letter.
const (
	auth     = "AUTH"
	rcpt     = "RCPT TO"
	data     = "DATA"
	finalDot = "the final dot"
)
