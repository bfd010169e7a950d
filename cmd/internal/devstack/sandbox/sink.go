package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// errOtherRequest says that a key was used before for another request.
var errOtherRequest = errors.New("this key was used before with another request")

// sink is one service's memory: every record, and which key was first used where.
type sink struct {
	journal *journal

	mu      sync.Mutex
	records []record
	first   map[string]int // key → index in records
	latest  map[scope]latest
}

// scope is an account in live or in test mode; each has a state of its own.
type scope struct{ mode, account string }

// latest is the state of an account: the last first record of it, or of workspaces, the one with the highest version.
type latest struct {
	index   int // in records
	version int64
}

// target reads what tells the targets of a workspace apart. Fields of other types stay empty.
func (r record) target() (mode string, version int64) {
	body := gjson.ParseBytes(r.Body)
	version, _ = strconv.ParseInt(body.Get("version").Raw, 10, 64)
	return body.Get("mode").Str, version
}

func openSink(dir, service string) (*sink, error) {
	j, records, err := openJournal(filepath.Join(dir, service+".jsonl"))
	if err != nil {
		return nil, err
	}
	s := &sink{journal: j, first: map[string]int{}, latest: map[scope]latest{}}
	for _, rec := range records {
		s.remember(rec)
	}
	return s, nil
}

func (s *sink) remember(rec record) {
	if rec.First {
		s.first[rec.Key] = len(s.records)
		mode, version := rec.target()
		// A request without a version is applied: a person may send one by hand.
		if of := (scope{mode, rec.Account}); version == 0 || rec.OutOfOrder || version >= s.latest[of].version {
			s.latest[of] = latest{len(s.records), version}
		}
	}
	s.records = append(s.records, rec)
}

// accept takes a request, whose time and place it fills in, and returns when its line is on the disk. The record is
// the one that the answer is made of: that of the first request with this key. With strict, a key that comes again
// must come with the same account and bytes, else errOtherRequest. An empty key is never remembered.
func (s *sink) accept(rec record, strict bool) (record, error) {
	rec.At, rec.First = time.Now().UTC(), true
	wait, answer, err := s.add(rec, strict)
	if err != nil {
		return record{}, err
	}
	if err := wait(); err != nil {
		return record{}, fmt.Errorf("write the journal: %w", err)
	}
	return answer, nil
}

// add remembers rec and queues its line in one step, so that lines stand in the order in which
// requests were told apart: a key's first line stands before the others.
func (s *sink) add(rec record, strict bool) (wait func() error, answer record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer = rec
	if i, ok := s.first[rec.Key]; ok && rec.Key != "" {
		before := s.records[i]
		if strict && (before.Account != rec.Account || !bytes.Equal(before.Body, rec.Body)) {
			return nil, record{}, errOtherRequest
		}
		rec.First = false
		answer = before
		answer.First = false
	}
	line, err := rec.line()
	if err != nil {
		return nil, record{}, err
	}
	s.remember(rec)
	return s.journal.enqueue(line), answer, nil
}

// state returns the state of account in the first of the modes that has one.
func (s *sink) state(account string, modes ...string) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, mode := range modes {
		if at, ok := s.latest[scope{mode, account}]; ok {
			return s.records[at.index], true
		}
	}
	return record{}, false
}

// states returns the state of each account and mode, in the order in which they came to it.
func (s *sink) states() []record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var states []record
	for _, at := range slices.SortedFunc(maps.Values(s.latest), func(a, b latest) int { return a.index - b.index }) {
		states = append(states, s.records[at.index])
	}
	return states
}

// all returns every record. Records never change, so the slice can be read without the lock.
func (s *sink) all() []record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[:len(s.records):len(s.records)]
}
