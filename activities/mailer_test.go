package activities_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/ledger"
)

// The time-out closes the connection between the mark and the final dot: no doubt that nothing was taken.
func TestMailer_ClosedBeforeFinalDot_NotInDoubt(t *testing.T) {
	t.Parallel()
	hungUp := make(chan struct{})
	m := mailServer(t, func(conn net.Conn) {
		defer close(hungUp)
		converse(conn)
	})
	ctx, cancel := context.WithCancel(t.Context())
	err := m.Send(ctx, activities.Message{From: "a@pawl.test", To: "b@pawl.test", Data: []byte("Subject: x\r\n\r\nx\r\n")}, func() error {
		cancel()
		<-hungUp
		return nil
	})
	if class, _ := effect.Classify(err); err == nil || class != ledger.Transient {
		t.Errorf("Send() = %v of class %q; want a failure that can be tried again", err, class)
	}
}

// A server, or whoever stands before it, that never ends a reply fills no memory: it is left after 64 KiB.
func TestMailer_EndlessReply_Left(t *testing.T) {
	t.Parallel()
	const most = 64 << 20 // far more than the buffers of a connection hold
	for name, tt := range map[string]struct {
		line string
		tls  activities.TLSMode
	}{
		"greeting":            {"220-welcome\r\n", activities.NoTLS},
		"greeting, one line":  {"220-welcome", activities.NoTLS},
		"before the TLS":      {"220-welcome\r\n", activities.StartTLS},
		"abilities":           {"250-SIZE\r\n", activities.NoTLS},
		"instead of any TLS":  {"250-SIZE\r\n", activities.ImplicitTLS},
		"abilities, STARTTLS": {"250-SIZE\r\n", activities.StartTLS},
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
			err := m.Send(t.Context(), activities.Message{From: "a@pawl.test", To: "b@pawl.test", Data: []byte("x")}, func() error { return nil })
			if class, _ := effect.Classify(err); err == nil || class != ledger.Transient {
				t.Errorf("Send() = %v of class %q; want a failure that can be tried again", err, class)
			}
			if sent := <-written; sent >= most {
				t.Errorf("the worker read %d MiB", sent>>20)
			}
		})
	}
}

// converse is an SMTP server that takes everything and returns when the client has hung up.
func converse(conn net.Conn) { converseUntil(conn, never, nil) }

// ending says of a line, which comes after so many mails on a connection, that the server hangs up, and what it
// says before.
type ending func(line string, mails int) (last string, hangUp bool)

func never(string, int) (string, bool) { return "", false }

// at hangs up at a command after so many mails.
func at(command string, after int, last string) ending {
	return func(line string, mails int) (string, bool) {
		return last, mails >= after && strings.HasPrefix(line, command)
	}
}

// converseUntil is converse that hangs up where end says so, and tells taken of each mail.
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

// mailServer returns a mailer of a server that serves each connection, and closes it then.
func mailServer(t *testing.T, serve func(net.Conn)) *activities.Mailer {
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
	return &activities.Mailer{Address: server.Addr().String(), TLS: activities.NoTLS}
}

// countingServer is a server that counts, and hangs up where end says so.
func countingServer(t *testing.T, end ending) (m *activities.Mailer, connections, mails *atomic.Int32) {
	t.Helper()
	connections, mails = new(atomic.Int32), new(atomic.Int32)
	return mailServer(t, func(conn net.Conn) {
		connections.Add(1)
		converseUntil(conn, end, func() { mails.Add(1) })
	}), connections, mails
}

func TestMailer_ConnectionKeptForTheNextMail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end         ending
		sent, taken int32
		connections int32
		class       ledger.Class // of those that are not taken
	}{
		"one for all":                          {never, 5, 5, 1, ""},
		"ended by the server at the next mail": {at("MAIL", 2, ""), 5, 5, 3, ""},
		"with good-bye":                        {at("MAIL", 2, "421 enough\r\n"), 5, 5, 3, ""},
		"ended by the server in a mail":        {at("RCPT", 2, ""), 5, 4, 2, ledger.Transient},
		// Answers are the mail's own, whatever connection it goes over.
		"refused": {at("MAIL", 2, "550 not you\r\n"), 5, 4, 2, ledger.Fault},
		"put off": {at("MAIL", 2, "451 not now\r\n"), 5, 4, 2, ledger.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, connections, mails := countingServer(t, c.end)
			failed := int32(0)
			for range c.sent {
				ctx, cancel := context.WithCancel(t.Context())
				err := m.Send(ctx, activities.Message{From: "a@pawl.test", To: "b@pawl.test", Data: []byte("Subject: x\r\n\r\nx\r\n")}, func() error { return nil })
				cancel() // must not reach the next one
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

// A server that has closed the connection while nobody looked has not taken what is sent then.
func TestMailer_IdleConnectionClosedByTheServer_Renewed(t *testing.T) {
	t.Parallel()
	conns := make(chan net.Conn, 4)
	m := mailServer(t, func(conn net.Conn) {
		conns <- conn
		converse(conn)
	})
	for i := range 3 {
		marked := 0
		err := m.Send(t.Context(), activities.Message{From: "a@pawl.test", To: "b@pawl.test", Data: []byte("Subject: x\r\n\r\nx\r\n")}, func() error {
			marked++
			return nil
		})
		if err != nil || marked != 1 {
			t.Errorf("mail %d: %v after %d marks, want it sent after one", i, err, marked)
		}
		_ = (<-conns).Close()
	}
}

func TestMailer_ManyAtOnce_EachTakenOnce(t *testing.T) {
	t.Parallel()
	m, connections, mails := countingServer(t, never)
	const senders, each = 20, 20
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				if err := m.Send(t.Context(), activities.Message{From: "a@pawl.test", To: "b@pawl.test", Data: []byte("x\r\n")}, func() error { return nil }); err != nil {
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
