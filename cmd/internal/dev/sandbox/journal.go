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

// record is one accepted request in a journal.
type record struct {
	At      time.Time `json:"received_at"`
	Key     string    `json:"key"`
	First   bool      `json:"first"`
	Account string    `json:"account"`
	// OutOfOrder is set if a target was applied to a workspace that had a newer target.
	OutOfOrder bool            `json:"out_of_order,omitempty"`
	Body       json.RawMessage `json:"body"` // the last field, see line
}

// line formats r with the exact bytes of the body. json.Marshal would compact and escape them, and a repeated key is
// compared with these bytes after a restart.
func (r record) line() ([]byte, error) {
	body := r.Body
	r.Body = nil
	line, err := json.Marshal(r)
	return slices.Concat(bytes.TrimSuffix(line, []byte("null}")), body, []byte("}\n")), err
}

// target parses the version of a workspace target. Fields of other types stay empty.
func (r record) target() (mode string, version int64) {
	body := gjson.ParseBytes(r.Body)
	version, _ = strconv.ParseInt(body.Get("version").Raw, 10, 64)
	return body.Get("mode").Str, version
}

// oneLine returns the JSON body for a journal: the exact bytes, or the compact form if the body has line breaks.
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

// errOtherRequest reports that the key was used for another request.
var errOtherRequest = errors.New("this key was used before for another account or with other bytes")

// journal holds all records of one service and the first record of each key. Its file has one line per record.
type journal struct {
	mu      sync.Mutex
	file    *os.File // nil for a journal in memory
	records []record
	first   map[string]int // key → index in records
	latest  map[scope]record
}

// scope is an account in live or test mode. Each scope has its own state: its latest first record, or for workspaces
// the record with the highest version.
type scope struct{ mode, account string }

func newJournal() *journal { return &journal{first: map[string]int{}, latest: map[scope]record{}} }

// openJournal opens or creates the file of a service in dir and reads its records. An incomplete last line comes from a
// crash. Its request was never answered, so openJournal removes the line.
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
		// A target without a version is always applied, because a person may send one by hand.
		if version == 0 || rec.OutOfOrder || version >= newest {
			j.latest[scope{mode, rec.Account}] = rec
		}
	}
	j.records = append(j.records, rec)
}

// accept stores a request after it has set its time and position. It returns the record of the first request with this
// key after the line is written. With strict, a repeated key must have the same account and bytes; otherwise accept
// returns errOtherRequest. An empty key is never remembered.
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

// state returns the state of an account in the first mode that has one.
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

// all returns every record. Records never change, so the caller can read the slice without the lock.
func (j *journal) all() []record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.records[:len(j.records):len(j.records)]
}
