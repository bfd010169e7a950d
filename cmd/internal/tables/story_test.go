package tables_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// acme has paid 49.00 USD and 20.00 EUR, and 9.00 USD were refunded. A reversal has moved no money.
func acme() *account.Account {
	at := func(day int) time.Time { return time.Date(2026, 11, day, 12, 0, 0, 0, time.UTC) }
	paid, until := at(1), at(30)
	return &account.Account{
		ID: "acme", Mode: "live", Access: account.Access{State: "active", Plan: "pro", Version: 1},
		Grants:   []account.Grant{{Object: "sub_1", Plan: "pro", Until: &until}},
		Invoices: []account.Invoice{{ID: "in_1", Number: "F-12", Status: "paid", Paid: 4900, Currency: "usd", PaidAt: &paid}},
		Entries: []account.Entry{
			{At: at(4), Kind: "reversal", Invoice: "in_1", Amount: 4000, Currency: "usd"},
			{At: at(3), Kind: "refund", Invoice: "in_1", Amount: 900, Cash: -900, Currency: "usd"},
			{At: at(2), Kind: "payment", Amount: 2000, Cash: 2000, Currency: "eur"},
			{At: at(1).Add(time.Minute), Kind: "payment", Invoice: "in_1", Amount: 4900, Cash: 4900, Currency: "usd"},
		},
		Cash:      []account.Cash{{Amount: 4000, Currency: "usd"}, {Amount: 2000, Currency: "eur"}},
		Due:       []account.Due{{At: at(29), Kind: fold.DueRenewal, Object: "sub_1"}},
		Workspace: &account.Workspace{Version: 1, State: "active", Plan: "pro", UpdatedAt: at(1).Add(2 * time.Minute)},
	}
}

func TestStory_NewestFirst_WithSignsAndBalances(t *testing.T) {
	t.Parallel()
	var got []string
	for _, row := range tables.Story(acme())[1:] {
		got = append(got, strings.Join([]string{output.Text(row[1]), output.Text(row[2]), output.Text(row[3])}, "|"))
	}
	want := []string{
		"Access ends here unless sub_1 is renewed||", "Planned: opens a task if the renewal is not confirmed||",
		"Booked: reversal of the sale, invoice F-12, −40.00 USD without a movement of money||",
		"Booked: refund, invoice F-12|−9.00 USD|40.00 USD", "Booked: payment|+20.00 EUR|20.00 EUR",
		"Workspace updated: Active: pro||", "Booked: payment, invoice F-12|+49.00 USD|49.00 USD",
		"Paid 49.00 USD, invoice F-12||",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAccessReason(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 5, 0, 0, 0, 0, time.UTC)
	stopped := acme()
	stopped.Access.State = "suspended"
	stopped.Obstacles = []account.Obstacle{{Cause: account.UnknownPrice, Message: "No plan has the price price_gold."}}
	stopped.Tasks = []account.Task{{Since: now}}
	behind := acme()
	behind.Access.Version = 2
	for name, c := range map[string]struct {
		account *account.Account
		badge   output.Badge
		says    string
	}{
		"active":        {acme(), "active", "Access to pro."},
		"no access":     {stopped, "suspended", "No plan has the price price_gold. 1 task open since " + output.Time(now) + "."},
		"not ready yet": {behind, "active", "Access to pro. The workspace is not updated yet."},
		"new":           {&account.Account{ID: "new"}, "none", "The account never had access."},
	} {
		if got := tables.AccessReason(c.account, now); got != c.says {
			t.Errorf("%s: got %q, want %q", name, got, c.says)
		}
		if got := tables.AccessBadge(c.account); got != c.badge {
			t.Errorf("%s: badge %q, want %q", name, got, c.badge)
		}
	}
}
