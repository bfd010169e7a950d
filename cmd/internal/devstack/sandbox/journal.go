package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// record is one accepted request, as it stands in a journal.
type record struct {
	At      time.Time `json:"at"`
	Key     string    `json:"key"`
	First   bool      `json:"first"`
	Account string    `json:"account"`
	// OutOfOrder is set for a workspace's target that was applied although a newer one was known.
	OutOfOrder bool            `json:"out_of_order,omitempty"`
	Body       json.RawMessage `json:"body"` // the last field, see line
}

// line renders r with the body's bytes as they are: json.Marshal would compact and escape them,
// and a key that comes again after a restart is compared with these bytes.
func (r record) line() ([]byte, error) {
	body := r.Body
	r.Body = nil
	line, err := json.Marshal(r)
	return slices.Concat(bytes.TrimSuffix(line, []byte("null}")), body, []byte("}\n")), err
}

// target reads what tells the targets of a workspace apart. Fields of other types stay empty.
func (r record) target() (mode string, version int64) {
	body := gjson.ParseBytes(r.Body)
	version, _ = strconv.ParseInt(body.Get("version").Raw, 10, 64)
	return body.Get("mode").Str, version
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

// errOtherRequest says that a key was used before for another request.
var errOtherRequest = errors.New("this key was used before for another account or with other bytes")

// journal is one service's memory: every record, and which key was first used where. Its file has a line for each.
type journal struct {
	mu      sync.Mutex
	file    *os.File // nil for one that is kept in memory alone
	records []record
	first   map[string]int // key → index in records
	latest  map[scope]record
}

// scope is an account in live or in test mode. Each has a state of its own: its latest first record, or of workspaces,
// the one with the highest version.
type scope struct{ mode, account string }

func newJournal() *journal { return &journal{first: map[string]int{}, latest: map[scope]record{}} }

// openJournal opens or makes a service's file in dir, and remembers its records. A last line without an end was cut
// off by a crash, so it was never answered: it is removed.
func openJournal(dir, service string) (*journal, error) {
	path := filepath.Join(dir, service+".jsonl")
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	j := newJournal()
	whole := content[:bytes.LastIndexByte(content, '\n')+1]
	for line := range bytes.Lines(whole) {
		var rec record
		if err := json.Unmarshal(line, &rec); err != nil {
			return nil, fmt.Errorf("read %s: line %d: %w", path, len(j.records)+1, err)
		}
		j.remember(rec)
	}
	if j.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	return j, j.file.Truncate(int64(len(whole)))
}

func (j *journal) remember(rec record) {
	if rec.First {
		j.first[rec.Key] = len(j.records)
		mode, version := rec.target()
		_, newest := j.latest[scope{mode, rec.Account}].target()
		// A request without a version is applied: a person may send one by hand.
		if version == 0 || rec.OutOfOrder || version >= newest {
			j.latest[scope{mode, rec.Account}] = rec
		}
	}
	j.records = append(j.records, rec)
}

// accept takes a request, whose time and place it fills in, and returns when its line is written. The record is
// the one that the answer is made of: that of the first request with this key. With strict, a key that comes again
// must come with the same account and bytes, else errOtherRequest. An empty key is never remembered.
func (j *journal) accept(rec record, strict bool) (record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	rec.At, rec.First = time.Now().UTC(), true
	answer := rec
	if i, ok := j.first[rec.Key]; ok && rec.Key != "" {
		answer = j.records[i]
		if strict && (answer.Account != rec.Account || !bytes.Equal(answer.Body, rec.Body)) {
			return record{}, errOtherRequest
		}
		rec.First, answer.First = false, false
	}
	if j.file != nil {
		line, err := rec.line()
		if err == nil {
			_, err = j.file.Write(line)
		}
		if err != nil {
			return record{}, fmt.Errorf("write the journal: %w", err)
		}
	}
	j.remember(rec)
	return answer, nil
}

// state returns the state of account in the first of the modes that has one.
func (j *journal) state(account string, modes ...string) (record, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, mode := range modes {
		if rec, ok := j.latest[scope{mode, account}]; ok {
			return rec, true
		}
	}
	return record{}, false
}

// all returns every record. Records never change, so the slice can be read without the lock.
func (j *journal) all() []record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.records[:len(j.records):len(j.records)]
}
