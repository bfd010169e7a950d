package smtp

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	gosmtp "github.com/emersion/go-smtp"
)

// After an e-mail, a connection stays open for mailIdle. At most maxIdleMail connections are idle. mailIdle is shorter
// than the timeout of any server (RFC 5321 §4.5.3.2.7: at least five minutes).
const (
	mailIdle    = 15 * time.Second
	maxIdleMail = 8
)

type session struct {
	*gosmtp.Client
	conn *boundedConn
	// unbind undoes bind. It returns false if the context has ended.
	unbind func() bool
	since  time.Time
}

// bind arranges that the connection closes when ctx ends. It also resets the limit on responses for the next e-mail.
func (s *session) bind(ctx context.Context) {
	s.conn.left = maxAnswers
	s.unbind = context.AfterFunc(ctx, func() { _ = s.conn.Close() })
}

// maxAnswers is the maximum number of bytes that a mail server may send per e-mail. The greeting, the certificates and
// the capabilities have less than 20 KB. Without this limit, the SMTP client would read a response of any length into
// memory.
const maxAnswers = 64 << 10

// boundedConn returns an error when the server has sent more than left bytes.
type boundedConn struct {
	net.Conn
	left int
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, fmt.Errorf("it sent more than %d KiB in response to one e-mail", maxAnswers>>10)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (s *session) end() {
	s.unbind()
	_ = s.conn.Close()
}

// idleSessions holds open connections for later e-mails. The last element was used last.
type idleSessions struct {
	mu       sync.Mutex
	sessions []*session // when the process exits, the kernel closes them
}

// take returns an idle session bound to ctx, or nil.
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

// release stores s for the next e-mail if the server accepted the last e-mail. Otherwise the state of the session is
// unknown, and release closes it.
func (i *idleSessions) release(s *session, accepted bool) {
	if !accepted || !s.unbind() {
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

// prune closes the sessions that were idle for mailIdle.
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

// quit sends QUIT and closes the connection. E-mails that the server has accepted are not affected.
func (s *session) quit() {
	s.CommandTimeout = time.Second
	_ = s.Quit()
	s.end()
}
