package smtp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/smtp"
	"github.com/pawlhq/pawl/schema/ledger"
)

// The timeout closes the connection between the mark and the final dot, so the server has not accepted the e-mail.
func TestClient_ClosedBeforeFinalDot_NotInDoubt(t *testing.T) {
	t.Parallel()
	hungUp := make(chan struct{})
	m := mailServer(t, func(conn net.Conn) {
		defer close(hungUp)
		converse(conn)
	})
	ctx, cancel := context.WithCancel(t.Context())
	err := m.Send(ctx, smtp.Message{From: "a@pawl.test", To: "b@pawl.test", Data: []byte("Subject: x\r\n\r\nx\r\n")}, func() error {
		cancel()
		<-hungUp
		return nil
	})
	if class, _ := effect.Classify(err); err == nil || class != ledger.Transient {
		t.Errorf("Send() = %v of class %q; want a failure that can be tried again", err, class)
	}
}

// A server or proxy that never ends a reply does not exhaust the memory, because pawl closes the connection after 64
// KiB.
func TestClient_EndlessReply_Left(t *testing.T) {
	t.Parallel()
	const most = 64 << 20 // far more than the buffers of a connection
	for name, tt := range map[string]struct {
		line string
		tls  smtp.TLSMode
	}{
		"greeting":            {"220-welcome\r\n", smtp.NoTLS},
		"greeting, one line":  {"220-welcome", smtp.NoTLS},
		"before the TLS":      {"220-welcome\r\n", smtp.StartTLS},
		"abilities":           {"250-SIZE\r\n", smtp.NoTLS},
		"instead of any TLS":  {"250-SIZE\r\n", smtp.ImplicitTLS},
		"abilities, STARTTLS": {"250-SIZE\r\n", smtp.StartTLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			written := make(chan int, 1)
			m := mailServer(t, func(conn net.Conn) {
				if strings.HasPrefix(tt.line, "250") {
					_, _ = io.WriteString(conn, "220 here\r\n")
				}
				sent, err := 0, error(nil)
				for block := strings.Repeat(tt.line, 4096); err == nil && sent < most; sent += len(block) {
					_, err = io.WriteString(conn, block)
				}
				written <- sent
			})
			m.TLS = tt.tls
			err := m.Send(t.Context(), smtp.Message{From: "a@pawl.test", To: "b@pawl.test", Data: []byte("x")}, func() error { return nil })
			if class, _ := effect.Classify(err); err == nil || class != ledger.Transient {
				t.Errorf("Send() = %v of class %q; want a failure that can be tried again", err, class)
			}
			if sent := <-written; sent >= most {
				t.Errorf("the worker read %d MiB", sent>>20)
			}
		})
	}
}

// converse simulates an SMTP server that accepts everything. It returns when the client disconnects.
func converse(conn net.Conn) { converseUntil(conn, never, nil) }

// ending decides, for a line and the number of e-mails on the connection, whether the server disconnects and what its
// last reply is.
type ending func(line string, mails int) (last string, hangUp bool)

func never(string, int) (string, bool) { return "", false }

// at returns an ending that disconnects at a command after the given number of e-mails.
func at(command string, after int, last string) ending {
	return func(line string, mails int) (string, bool) {
		return last, mails >= after && strings.HasPrefix(line, command)
	}
}

// converseUntil is converse with an ending. It calls taken for each e-mail.
func converseUntil(conn net.Conn, end ending, taken func()) {
	lines := bufio.NewReader(conn)
	_, _ = io.WriteString(conn, "220 here\r\n")
	mails, inside := 0, false
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if last, over := end(text, mails); over {
			_, _ = io.WriteString(conn, last)
			return
		}
		code := 250
		switch {
		case inside && text != ".\r\n":
			continue
		case inside:
			inside = false
			if mails++; taken != nil {
				taken()
			}
		case strings.HasPrefix(text, "DATA"):
			code, inside = 354, true
		}
		_, _ = fmt.Fprintf(conn, "%d ok\r\n", code)
	}
}

// mailServer returns a client for a server that serves each connection once.
func mailServer(t *testing.T, serve func(net.Conn)) *smtp.Client {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			}()
		}
	}()
	return &smtp.Client{Address: server.Addr().String(), TLS: smtp.NoTLS}
}

// countingServer returns a client for a server that counts commands, and disconnects according to end.
func countingServer(t *testing.T, end ending) (m *smtp.Client, connections, mails *atomic.Int32) {
	t.Helper()
	connections, mails = new(atomic.Int32), new(atomic.Int32)
	return mailServer(t, func(conn net.Conn) {
		connections.Add(1)
		converseUntil(conn, end, func() { mails.Add(1) })
	}), connections, mails
}

func TestClient_ConnectionKeptForTheNextMail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end         ending
		sent, taken int32
		connections int32
		class       ledger.Class // the class of failures of e-mails that are not accepted
	}{
		"one for all":                          {never, 5, 5, 1, ""},
		"ended by the server at the next mail": {at("MAIL", 2, ""), 5, 5, 3, ""},
		"with good-bye":                        {at("MAIL", 2, "421 enough\r\n"), 5, 5, 3, ""},
		"ended by the server in a mail":        {at("RCPT", 2, ""), 5, 4, 2, ledger.Transient},
		// A rejection concerns the e-mail, on a new connection and on a reused one.
		"refused": {at("MAIL", 2, "550 not you\r\n"), 5, 4, 2, ledger.Fault},
		"put off": {at("MAIL", 2, "451 not now\r\n"), 5, 4, 2, ledger.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, connections, mails := countingServer(t, c.end)
			failed := int32(0)
			for range c.sent {
				ctx, cancel := context.WithCancel(t.Context())
				err := m.Send(ctx, smtp.Message{From: "a@pawl.test", To: "b@pawl.test", Data: []byte("Subject: x\r\n\r\nx\r\n")}, func() error { return nil })
				cancel() // must not affect the next e-mail
				if err == nil {
					continue
				}
				failed++
				if class, _ := effect.Classify(err); class != c.class {
					t.Errorf("Send() = %v of class %q; want %q", err, class, c.class)
				}
			}
			if mails.Load() != c.taken || failed != c.sent-c.taken || connections.Load() != c.connections {
				t.Errorf("%d mails taken, %d failed, over %d connections; want %d, %d, %d",
					mails.Load(), failed, connections.Load(), c.taken, c.sent-c.taken, c.connections)
			}
		})
	}
}

// If the server has closed an idle connection, it has accepted nothing that is sent on the connection afterwards.
func TestClient_IdleConnectionClosedByTheServer_Renewed(t *testing.T) {
	t.Parallel()
	conns := make(chan net.Conn, 4)
	m := mailServer(t, func(conn net.Conn) {
		conns <- conn
		converse(conn)
	})
	for i := range 3 {
		marked := 0
		err := m.Send(t.Context(), smtp.Message{From: "a@pawl.test", To: "b@pawl.test", Data: []byte("Subject: x\r\n\r\nx\r\n")}, func() error {
			marked++
			return nil
		})
		if err != nil || marked != 1 {
			t.Errorf("mail %d: %v after %d marks, want it sent after one", i, err, marked)
		}
		_ = (<-conns).Close()
	}
}

func TestClient_ManyAtOnce_EachTakenOnce(t *testing.T) {
	t.Parallel()
	m, connections, mails := countingServer(t, never)
	const senders, each = 20, 20
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				if err := m.Send(t.Context(), smtp.Message{From: "a@pawl.test", To: "b@pawl.test", Data: []byte("x\r\n")}, func() error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if mails.Load() != senders*each || connections.Load() >= senders*each {
		t.Errorf("%d mails over %d connections, want %d over fewer", mails.Load(), connections.Load(), senders*each)
	}
}

// If a message ends before its final dot, the server does not accept it, whatever the length of the sent part is.
func TestClient_CutInTheMiddle_NotTaken(t *testing.T) {
	t.Parallel()
	box := activitiestest.NewMailbox(t, false)
	box.Next(activitiestest.Break{At: activitiestest.AtMessage})
	m := smtp.Client{Address: box.Address, TLS: smtp.NoTLS}
	long := "Subject: long\r\n\r\n" + strings.Repeat("a line that fills what a connection buffers\r\n", 1<<18)
	marked := false
	err := m.Send(t.Context(), smtp.Message{From: "a@pawl.test", To: "b@example.com", Data: []byte(long)}, func() error { marked = true; return nil })
	if class, _ := effect.Classify(err); err == nil || class != "transient" || marked {
		t.Errorf("error %v of class %s, marked %v; want a transient one before the mark", err, class, marked)
	}
	if got := box.Mails(); len(got) != 0 {
		t.Errorf("%d mails were taken", len(got))
	}
}

func TestClient_MarkRefused_DotNotSent(t *testing.T) {
	t.Parallel()
	box := activitiestest.NewMailbox(t, false)
	m := smtp.Client{Address: box.Address, TLS: smtp.NoTLS}
	refused := errors.New("taken over")
	err := m.Send(t.Context(), smtp.Message{From: "a@pawl.test", To: "b@example.com", Data: []byte(strings.Repeat("x", 100))}, func() error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("error %v, want the mark's", err)
	}
	if got := box.Mails(); len(got) != 0 {
		t.Errorf("%d mails were taken", len(got))
	}
}

func TestClient_TLS(t *testing.T) {
	t.Parallel()
	mail := smtp.Message{From: "a@pawl.test", To: "b@example.com", Data: []byte("Subject: x\r\n\r\n" + strings.Repeat("x", 100))}
	for name, tt := range map[string]struct {
		secure, trusted bool
		password        string
		sent            bool
		class           string
	}{
		"encrypted and authenticated": {secure: true, trusted: true, password: "secret", sent: true},
		"wrong password":              {secure: true, trusted: true, password: "wrong", class: "transient"},
		"stripped":                    {secure: false, password: "secret", class: "transient"},
		"somebody's certificate":      {secure: true, trusted: false, password: "secret", class: "transient"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := activitiestest.NewMailbox(t, tt.secure)
			m := smtp.Client{Address: box.Address, TLS: smtp.StartTLS, Username: "pawl", Password: tt.password}
			if tt.trusted {
				m.Roots = box.Roots
			}
			err := m.Send(t.Context(), mail, func() error { return nil })
			mails := box.Mails()
			if !tt.sent {
				if class, _ := effect.Classify(err); err == nil || string(class) != tt.class || len(mails) != 0 {
					t.Errorf("error %v of class %s, %d mails; want a %s one and nothing sent", err, class, len(mails), tt.class)
				}
				return
			}
			if err != nil || len(mails) != 1 || !mails[0].TLS || mails[0].User != "pawl" {
				t.Errorf("mails %+v, %v", mails, err)
			}
		})
	}
}
