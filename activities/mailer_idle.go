package activities

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// A connection is kept for mailIdle after a mail, and maxIdleMail of them: longer than a burst has gaps, and
// shorter than any server waits (RFC 5321 §4.5.3.2.7: five minutes at least).
const (
	mailIdle    = 15 * time.Second
	maxIdleMail = 8
)

type session struct {
	*smtp.Client
	conn *boundedConn
	// unbind undoes bind; it returns false where the context has ended.
	unbind func() bool
	since  time.Time
}

// bind ends the connection with ctx, and gives the server its allowance of answers for the next mail.
func (s *session) bind(ctx context.Context) {
	s.conn.left = maxAnswers
	s.unbind = context.AfterFunc(ctx, func() { _ = s.conn.Close() })
}

// maxAnswers is how much a mail server may answer to one mail, in bytes: its greeting, the certificates of a handshake
// and its abilities take less than 20 KB. The SMTP client itself keeps a reply of any length in memory.
const maxAnswers = 64 << 10

// boundedConn breaks where the server answers more than is left.
type boundedConn struct {
	net.Conn
	left int
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, fmt.Errorf("it answered more than %d KiB to one mail", maxAnswers>>10)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (s *session) end() {
	s.unbind()
	_ = s.conn.Close()
}

// idleSessions are connections that wait for the next mail, the one used last at the end.
type idleSessions struct {
	mu       sync.Mutex
	sessions []*session // of a process that ends, the kernel closes them
}

// take returns a session, bound to ctx, or nil if none is idle.
func (i *idleSessions) take(ctx context.Context) *session {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := len(i.sessions) - 1
	if n < 0 {
		return nil
	}
	s := i.sessions[n]
	i.sessions = slices.Delete(i.sessions, n, n+1)
	s.bind(ctx)
	return s
}

// release keeps s for the next mail where the last one was taken; after anything else, it is not known what
// the server thinks.
func (i *idleSessions) release(s *session, taken bool) {
	if !taken || !s.unbind() {
		s.end()
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.sessions) == maxIdleMail {
		go s.quit()
		return
	}
	s.since = time.Now()
	i.sessions = append(i.sessions, s)
	time.AfterFunc(mailIdle, i.prune)
}

// prune ends the sessions that have waited for long enough.
func (i *idleSessions) prune() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sessions = slices.DeleteFunc(i.sessions, func(s *session) bool {
		old := time.Since(s.since) >= mailIdle
		if old {
			go s.quit()
		}
		return old
	})
}

// quit says good-bye to the server. The mails that it has taken stay taken.
func (s *session) quit() {
	s.CommandTimeout = time.Second
	_ = s.Quit()
	s.end()
}
