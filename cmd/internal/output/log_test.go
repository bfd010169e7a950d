package output

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestLines_WaitAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		lines := &Lines{To: &out}
		log := slog.New(lines.Log(slog.NewJSONHandler(lines, nil)))
		has := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			lines.mu.Lock()
			defer lines.mu.Unlock()
			if got := bytes.Count(out.Bytes(), []byte("\n")); got != want {
				t.Errorf("%s: %d lines are written, want %d:\n%s", when, got, want, out.Bytes())
			}
		}
		log.Info("one")
		has("a command's line, at once", 1)
		end := lines.Together()
		log.Info("two")
		log.With("key", "value").WithGroup("group").Info("three")
		has("a process's lines, at first", 1)
		<-time.After(linesWait)
		has("after their moment", 3)
		log.Info("four")
		log.With("key", "value").Warn("five")
		has("a warning, with the line before it", 5)
		for out.Len() < linesMost {
			log.Info("a flood")
		}
		has("a flood", 5+bytes.Count(out.Bytes(), []byte("a flood")))
		log.Info("last")
		end()
		if !bytes.Contains(out.Bytes(), []byte("last")) {
			t.Error("the last line is not written when the process ends")
		}
		n := bytes.Count(out.Bytes(), []byte("\n"))
		log.Info("after it")
		has("after the end, at once", n+1)
	})
}
