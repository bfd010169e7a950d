package process

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config/stamp"
	"github.com/pawlhq/pawl/schema/reload"
)

// looker looks for causes of reloads: requests of operators, and changed files of secrets.
type looker struct {
	server *server
	// before describes the files at the last look. refused describes the files of a refused configuration.
	before, refused []stamp.File
	// again is the cause of a failed reload that is tried again at a time.
	again string
	at    time.Time
	// request is the number of the newest request of an operator. known is set when it was read.
	request int64
	known   bool
}

// once returns the cause of a reload, or "".
func (l *looker) once(ctx context.Context) string {
	used := l.server.node().Config.SecretFiles
	now := files(used)
	changed := !slices.Equal(now, used) && slices.Equal(now, l.before) && !slices.Equal(now, l.refused)
	l.before = now
	switch {
	case l.requested(ctx):
		return "an operator requested it"
	case changed:
		return "a file of a secret has changed"
	case l.again != "" && time.Now().After(l.at):
		return l.again
	}
	return ""
}

// tried records the result of a reload. If the new node was not ready, the reload is tried again after a pause. After
// any other failure, the process waits for another change.
func (l *looker) tried(why string, err error) {
	l.again, l.refused = "", nil
	if err == nil {
		return
	}
	l.refused = files(l.server.node().Config.SecretFiles)
	if errors.Is(err, errNotReady) {
		l.again, l.at = why, time.Now().Add(retryAfter)
	}
}

// files describes the files as they are now.
func files(of []stamp.File) (now []stamp.File) {
	for _, f := range of {
		now = append(now, stamp.At(f.Path))
	}
	return now
}

// requested reports whether an operator has made a request since the last call. It returns false while the database is
// down, and reports the request later.
func (l *looker) requested(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	newest, err := reload.Newest(ctx, l.server.node().Pool, string(l.server.kind))
	if err != nil {
		l.server.Log.DebugContext(ctx, "requests of reloads are unknown", "error", err)
		return false
	}
	before, known := l.request, l.known
	l.request, l.known = newest, true
	return known && newest > before
}
