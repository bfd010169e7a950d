package activitiestest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Stage is a point of an SMTP transaction.
type Stage string

// These are the stages of a transaction, in order.
const (
	AtGreeting Stage = "greeting"
	AtMail     Stage = "mail"
	AtRcpt     Stage = "rcpt"
	AtMessage  Stage = "message" // in the middle of the message
	AtDot      Stage = "dot"     // after the final dot
)

// Break describes how the next transaction fails.
type Break struct {
	At Stage
	// Code is the status that the server sends instead of 250. If it is zero, the server closes the connection.
	Code int
	// If Keep is set, the server accepts the e-mail before it fails (AtDot only).
	Keep bool
	// If Hang is set, the server does not respond and does not close the connection.
	Hang bool
}

// Mail is a message that the server accepted.
type Mail struct {
	From string
	To   []string
	// Data is the message with its headers, lines ended by CRLF.
	Data string
	// TLS is set if the connection was encrypted. User is set after authentication.
	TLS  bool
	User string
}

// Mailbox is an SMTP server that stores e-mails.
type Mailbox struct {
	// Address is host:port, with localhost as the host.
	Address string
	// Roots trusts the server's certificate.
	Roots *x509.CertPool

	mu          sync.Mutex
	breaks      []Break
	mails       []Mail
	connections int
	gone        chan struct{}
}

// NewMailbox starts a mailbox for the duration of the test. If secure is set, it offers STARTTLS, and authentication
// for any user with the password "secret".
func NewMailbox(t testing.TB, secure bool) *Mailbox {
	t.Helper()
	m := &Mailbox{gone: make(chan struct{})}
	server := smtp.NewServer(m)
	server.Domain = "localhost"
	server.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		var certificate tls.Certificate
		certificate, m.Roots = selfSigned(t)
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	m.Address = net.JoinHostPort("localhost", port)
	go func() { _ = server.Serve(&greeter{listener, m}) }()
	t.Cleanup(func() {
		close(m.gone)
		_ = server.Close()
	})
	return m
}

func selfSigned(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// Next queues failures for the next transactions.
func (m *Mailbox) Next(breaks ...Break) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.breaks = append(m.breaks, breaks...)
}

// Mails returns the accepted e-mails.
func (m *Mailbox) Mails() []Mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mails)
}

// Connections returns the number of connections.
func (m *Mailbox) Connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.connections
}

// meet executes a Break at a stage. If there is no Break, it returns nil.
func (m *Mailbox) meet(at Stage, conn net.Conn) error {
	m.mu.Lock()
	i := slices.IndexFunc(m.breaks, func(b Break) bool { return b.At == at })
	if i < 0 {
		m.mu.Unlock()
		return nil
	}
	b := m.breaks[i]
	m.breaks = slices.Delete(m.breaks, i, i+1)
	m.mu.Unlock()
	if b.Code > 0 {
		return &smtp.SMTPError{Code: b.Code, EnhancedCode: smtp.EnhancedCode{b.Code / 100, 0, 0}, Message: "no"}
	}
	if b.Hang { // hang until the client gives up or the test ends
		left := make(chan struct{})
		go func() {
			_, _ = conn.Read(make([]byte, 1))
			close(left)
		}()
		select {
		case <-left:
		case <-m.gone:
		}
	}
	_ = conn.Close()
	return errors.New("closed on cue")
}

// greeter breaks connections before the greeting.
type greeter struct {
	net.Listener
	mailbox *Mailbox
}

func (g *greeter) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g.mailbox.mu.Lock()
		g.mailbox.connections++
		cued := slices.ContainsFunc(g.mailbox.breaks, func(b Break) bool { return b.At == AtGreeting })
		g.mailbox.mu.Unlock()
		if !cued {
			return conn, nil
		}
		go func() {
			if _, answers := errors.AsType[*smtp.SMTPError](g.mailbox.meet(AtGreeting, conn)); answers {
				_, _ = io.WriteString(conn, "421 no\r\n")
				_ = conn.Close()
			}
		}()
	}
}

// NewSession starts a session on a connection.
func (m *Mailbox) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{mailbox: m, conn: c}, nil
}

type session struct {
	mailbox *Mailbox
	conn    *smtp.Conn
	mail    Mail
}

func (s *session) meet(at Stage) error { return s.mailbox.meet(at, s.conn.Conn()) }

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.mail.From = from
	return s.meet(AtMail)
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mail.To = append(s.mail.To, to)
	return s.meet(AtRcpt)
}

func (s *session) Data(r io.Reader) error {
	start := make([]byte, 64)
	if _, err := io.ReadFull(r, start); err != nil {
		return err
	}
	if err := s.meet(AtMessage); err != nil {
		return err
	}
	rest, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	mail := s.mail
	mail.Data = string(start) + string(rest)
	_, mail.TLS = s.conn.TLSConnectionState()
	s.mailbox.mu.Lock()
	cued := slices.ContainsFunc(s.mailbox.breaks, func(b Break) bool { return b.At == AtDot && !b.Keep })
	if !cued {
		s.mailbox.mails = append(s.mailbox.mails, mail)
	}
	s.mailbox.mu.Unlock()
	return s.meet(AtDot)
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if password != "secret" {
			return smtp.ErrAuthFailed
		}
		s.mail.User = user
		return nil
	}), nil
}

func (s *session) Reset() {
	user := s.mail.User
	s.mail = Mail{User: user}
}

func (s *session) Logout() error { return nil }

// Header returns a header field of the e-mail, or "".
func (m Mail) Header(name string) string {
	head, _, _ := strings.Cut(m.Data, "\r\n\r\n")
	for _, line := range strings.Split(strings.ReplaceAll(head, "\r\n ", " "), "\r\n") {
		if field, value, ok := strings.Cut(line, ": "); ok && strings.EqualFold(field, name) {
			return value
		}
	}
	return ""
}
