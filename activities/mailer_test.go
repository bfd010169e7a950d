package activities_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/ledger"
)

// The time-out closes the connection between the mark and the final dot: no doubt that nothing was taken.
func TestMailer_ClosedBeforeFinalDot_NotInDoubt(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	hungUp := make(chan struct{})
	go func() {
		defer close(hungUp)
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		converse(conn)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	m := &activities.Mailer{Address: server.Addr().String(), TLS: activities.NoTLS}
	err = m.Send(ctx, activities.Mail{From: "a@pawl.test", To: "b@pawl.test", Data: []byte("Subject: x\r\n\r\nx\r\n")}, func() error {
		cancel()
		<-hungUp
		return nil
	})
	if class, _ := effect.Classify(err); err == nil || class != ledger.Transient {
		t.Errorf("Send() = %v of class %q; want a failure that can be tried again", err, class)
	}
}

// converse is an SMTP server that takes everything and returns when the client has hung up.
func converse(conn net.Conn) {
	lines := bufio.NewReader(conn)
	_, _ = io.WriteString(conn, "220 here\r\n")
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		code := 250
		if strings.HasPrefix(text, "DATA") {
			code = 354
		}
		_, _ = fmt.Fprintf(conn, "%d ok\r\n", code)
	}
}
