package dispatch

import (
	"sync"

	"github.com/pawlhq/pawl/schema/run"
)

// mine are the receipts whose start this process has tried, and not recorded: a run that Temporal has of one of them
// is taken for its own without asking. Where that is wrong, the search for lost runs finds out.
type mine struct {
	mu       sync.Mutex
	receipts map[string]struct{}
}

// mostMine bounds what is remembered. What another process has recorded is never taken out, and costs 100 bytes.
const mostMine = 10_000

// add reports whether the receipt was there already.
func (m *mine) add(receiptID string) (there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, there = m.receipts[receiptID]
	if m.receipts == nil || len(m.receipts) >= mostMine {
		m.receipts = map[string]struct{}{}
	}
	m.receipts[receiptID] = struct{}{}
	return there
}

func (m *mine) recorded(runs []run.Started) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range runs {
		delete(m.receipts, r.ReceiptID)
	}
}
