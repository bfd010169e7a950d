package job

import (
	"context"
	"sync"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
)

// previewsAtOnce is the maximum number of job previews that a process computes concurrently. Twelve concurrent
// previews slowed the decisions of other people from 0.02 to 4.7 s.
const previewsAtOnce = 2

// jobPreviews limits the job previews of this process, across all [decide.Operator] values.
var jobPreviews previews

// previews limits the previews of jobs. The zero value is ready for use.
type previews struct {
	mu      sync.Mutex
	running chan struct{}
	persons map[string]*turn
}

// turn limits a person to one preview at a time. The current preview locks busy.
type turn struct {
	busy chan struct{}
	uses int // the number of previews that run or wait
}

// enter waits until the person by has no running preview and fewer than previewsAtOnce previews run. The caller calls
// leave once.
func (p *previews) enter(ctx context.Context, by *decide.Person) (leave func(), err error) {
	who := ""
	if by != nil {
		who = by.Issuer + " " + by.Subject
	}
	p.mu.Lock()
	if p.running == nil {
		p.running, p.persons = make(chan struct{}, previewsAtOnce), map[string]*turn{}
	}
	own := p.persons[who]
	if own == nil {
		own = &turn{busy: make(chan struct{}, 1)}
		p.persons[who] = own
	}
	own.uses++
	p.mu.Unlock()
	forget := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if own.uses--; own.uses == 0 {
			delete(p.persons, who)
		}
	}
	for i, place := range []chan struct{}{own.busy, p.running} {
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			if i == 1 {
				<-own.busy
			}
			forget()
			return nil, decide.Faultf(decide.Later, "other previews are running: try again when they have ended")
		}
	}
	return func() {
		<-p.running
		<-own.busy
		forget()
	}, nil
}
