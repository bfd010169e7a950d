package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// errOtherRequest says that a key was used before for another request.
var errOtherRequest = errors.New("this key was used before with another request")

// sink is one service's memory: every record, and which key was first used where.
type sink struct {
	journal *journal

	mu      sync.Mutex
	records []record
	first   map[string]int // key → index in records
	latest  map[string]int // account → index of its last first record: the state it is in
}

func openSink(dir, service string) (*sink, error) {
	j, records, err := openJournal(filepath.Join(dir, service+".jsonl"))
	if err != nil {
		return nil, err
	}
	s := &sink{journal: j, first: map[string]int{}, latest: map[string]int{}}
	for _, rec := range records {
		s.remember(rec)
	}
	return s, nil
}

func (s *sink) remember(rec record) {
	if rec.First {
		s.first[rec.Key] = len(s.records)
		s.latest[rec.Account] = len(s.records)
	}
	s.records = append(s.records, rec)
}

// accept takes a request and returns when its line is on the disk. The record is the one that
// the answer is made of: that of the first request with this key. With strict, a key that comes
// again must come with the same account and bytes, else errOtherRequest. An empty key is never
// remembered.
func (s *sink) accept(key, account string, body []byte, strict bool) (record, error) {
	rec := record{At: time.Now().UTC(), Key: key, First: true, Account: account, Body: body}
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

// state returns the last first record of account.
func (s *sink) state(account string) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.latest[account]
	if !ok {
		return record{}, false
	}
	return s.records[i], true
}

// states returns the last first record of each account.
func (s *sink) states() []record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var states []record
	for i, rec := range s.records {
		if rec.First && s.latest[rec.Account] == i {
			states = append(states, rec)
		}
	}
	return states
}

// all returns every record. What is there stays as it is, so the slice can be read without lock.
func (s *sink) all() []record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[:len(s.records):len(s.records)]
}
