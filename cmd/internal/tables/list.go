package tables

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/timeline"
)

// AmountOf is the money that an event is about, "" for none.
func AmountOf(r timeline.Receipt) string {
	return Amount(r.Amount, r.Currency)
}

// Amount is money in a table, "" for none.
func Amount(of *int64, currency string) string {
	if of == nil {
		return ""
	}
	return stripe.Money(*of, currency)
}

// Because is because of a reason that may begin with the status that it is the reason of.
func Because(status, reason string) string {
	return output.Because(strings.TrimPrefix(reason, status+": "))
}

func empty(s string) bool { return s == "" }

// Tasks are people's tasks in a list.
func Tasks(tasks []account.Task) [][]string {
	rows := [][]string{
		{"OPEN TASK", "OBJECT", "ACCOUNT", "MODE", "SINCE", "DUE BY", "EVENT", "TAKEN BY", "TITLE"},
	}
	for _, t := range tasks {
		rows = append(rows, []string{t.Kind, t.Object, t.Account, t.Mode, output.Time(t.Since), output.Date(t.DueBy),
			t.Event, t.TakenBy, t.Title})
	}
	return rows
}

// Jobs are bulk jobs in a list.
func Jobs(jobs []job.Job) [][]string {
	rows := [][]string{{"JOB", "ACTION", "STATE", "ITEMS", "DONE", "REFUSED", "FAILED", "LEFT", "MADE", "WHO", "WHY"}}
	for i := range jobs {
		j := &jobs[i]
		rows = append(rows, []string{j.ID, j.Action, string(j.State), strconv.Itoa(j.Items), strconv.Itoa(j.Done),
			strconv.Itoa(j.Refused),
			strconv.Itoa(j.Failed), strconv.Itoa(j.Left()), output.Time(j.CreatedAt), j.Who, j.Why})
	}
	return rows
}

// Sinks are sinks and consumers, as they stand.
func Sinks(sinks []report.Sink) [][]string {
	rows := [][]string{{"SINK", "STATE", "SINCE", "WAITING", "PROBES", "PLACES", "WHY"}}
	for _, r := range sinks {
		since := "-"
		if r.Since != nil {
			since = r.Since.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{r.Name, r.State, since, strconv.Itoa(r.Waiting), strconv.Itoa(r.Probes),
			strconv.Itoa(r.Places), r.Reason})
	}
	return rows
}

// Notices are what people are told.
func Notices(notices []notice.Notice, now time.Time) [][]string {
	rows := [][]string{{"PEOPLE ARE TOLD", "SEVERITY", "FOR", "LAST TOLD"}}
	for _, n := range notices {
		told := "waits for the end of quiet hours"
		if n.Told != nil {
			told = output.Age(*n.Told, now) + " ago"
		}
		rows = append(rows, []string{output.Clean(n.What), string(n.Severity), output.Age(n.Since, now), told})
	}
	return rows
}

// Sums are sums of money by currency; "" for none.
func Sums(money map[string]int64) string {
	var sums []string
	for _, currency := range slices.Sorted(maps.Keys(money)) {
		sums = append(sums, stripe.Money(money[currency], currency))
	}
	return strings.Join(sums, " + ")
}

// Receipts are events in a list.
func Receipts(receipts []timeline.Receipt) [][]string {
	rows := [][]string{{"RECEIVED", "STATUS", "SOURCE", "TYPE", "ACCOUNT", "AMOUNT", "EVENT", "DUPLICATES", "REASON"}}
	for _, r := range receipts {
		rows = append(rows, []string{output.Time(r.ReceivedAt), r.Status, r.Source, r.Type, r.OurAccount, AmountOf(r),
			r.EventID, strconv.Itoa(r.Duplicates), r.Reason})
	}
	return rows
}

// Accounts are accounts in a list.
func Accounts(accounts []account.Listed) [][]string {
	rows := [][]string{{"ACCOUNT", "MODE", "ACCESS", "USES", "STATUS", "UNTIL", "VERSION", "CUSTOMER", "NOTE"}}
	for _, l := range accounts {
		var notes []string
		if l.Held {
			notes = append(notes, "held back")
		}
		if l.Workspace < l.Version {
			notes = append(notes, "its workspace has not followed yet")
		}
		rows = append(rows, []string{l.ID, l.Mode, l.Access, Plan(l.Plan, l.Quantity), strings.Join(l.Statuses, ", "),
			output.Date(l.Until), strconv.FormatInt(l.Version, 10), l.Customer, strings.Join(notes, "; ")})
	}
	return rows
}
