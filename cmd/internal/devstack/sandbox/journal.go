package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// record is one accepted request, as it stands in a journal.
type record struct {
	At      time.Time `json:"at"`
	Key     string    `json:"key"`
	First   bool      `json:"first"`
	Account string    `json:"account"`
	// OutOfOrder is set for a workspace's target that was applied although a newer one was known.
	OutOfOrder bool            `json:"out_of_order,omitempty"`
	Body       json.RawMessage `json:"body"`
}

// line renders r with the body's bytes as they are: json.Marshal would compact and escape them,
// and a key that comes again after a restart is compared with these bytes.
func (r record) line() ([]byte, error) {
	head, err := json.Marshal(struct {
		At      time.Time `json:"at"`
		Key     string    `json:"key"`
		First   bool      `json:"first"`
		Account string    `json:"account"`
		Order   bool      `json:"out_of_order,omitempty"`
	}{r.At, r.Key, r.First, r.Account, r.OutOfOrder})
	if err != nil {
		return nil, err
	}
	line := append(bytes.TrimSuffix(head, []byte("}")), `,"body":`...)
	line = append(line, r.Body...)
	return append(line, "}\n"...), nil
}

// oneLine returns the JSON text body as it can stand in a journal: its own bytes, or where these
// hold line breaks, its compact form.
func oneLine(body []byte) (json.RawMessage, error) {
	body = bytes.TrimSpace(body)
	if !json.Valid(body) {
		return nil, errors.New("the body is not JSON")
	}
	if !bytes.ContainsAny(body, "\r\n") {
		return body, nil
	}
	var compact bytes.Buffer
	err := json.Compact(&compact, body)
	return compact.Bytes(), err
}

// journal appends lines to a file. Lines that wait at the same moment share one fsync.
type journal struct {
	file *os.File

	mu       sync.Mutex
	next     *batch // lines that are not written yet; nil for none
	flushing bool
	broken   error // after a failed write the file's end is unknown: nothing more is accepted
}

type batch struct {
	lines []byte
	done  chan struct{}
	err   error
}

// openJournal opens or makes the file at path and returns its records. A last line without an end was cut off by a
// crash, so it was never answered: it is removed.
func openJournal(path string) (*journal, []record, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, err
	}
	records, size, err := readJournal(file)
	if err == nil {
		err = file.Truncate(size)
	}
	if err == nil {
		_, err = file.Seek(size, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &journal{file: file}, records, nil
}

// readJournal returns the records of r and the size of its whole lines.
func readJournal(r io.Reader) (records []record, size int64, err error) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, size, nil
		}
		if err != nil {
			return nil, 0, err
		}
		var rec record
		if err := json.Unmarshal(line, &rec); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", len(records)+1, err)
		}
		records = append(records, rec)
		size += int64(len(line))
	}
}

// enqueue puts line behind those before it and returns a function that waits until it is on the
// disk.
func (j *journal) enqueue(line []byte) (wait func() error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.next == nil {
		j.next = &batch{done: make(chan struct{})}
	}
	b := j.next
	b.lines = append(b.lines, line...)
	if !j.flushing {
		j.flushing = true
		go j.flush()
	}
	return func() error {
		<-b.done
		return b.err
	}
}

// flush writes batches until no next one waits.
func (j *journal) flush() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.next != nil {
		b := j.next
		j.next = nil
		if j.broken == nil {
			j.mu.Unlock()
			_, err := j.file.Write(b.lines)
			if err == nil {
				err = j.file.Sync()
			}
			j.mu.Lock()
			j.broken = err
		}
		b.err = j.broken
		close(b.done)
	}
	j.flushing = false
}

func (j *journal) close() error { return j.file.Close() }
