package resource

import (
	"cmp"
	"context"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/timeline"
)

var emails = &list[timeline.Email]{
	Description: Description{
		Name: "emails", Title: "E-mails", Command: "emails list", Path: "/emails",
		Short: "List the e-mails to customers, newest first",
		Long: `List the e-mails to customers, newest first, with the invoice or object and the outcome. An e-mail is listed at the time
when it was sent or skipped, or else at its first attempt. An e-mail is unclear if the mail server did not confirm it: the
customer may have got it. An e-mail that pawl has not tried to send yet is not in the list. The list contains no
addresses.`,
		Empty: "No e-mail matches these filters. An e-mail appears with the first attempt to send it.",
		Right: role.RightRead, Paged: true,
		Filters: []Filter{
			liveUnless("e-mails"),
			{Name: "account", Usage: "only e-mails of this account"},
			{Name: "kind", Usage: "only e-mails of this `kind`", Values: timeline.EmailKinds},
			{Name: "outcome", Usage: "only e-mails with this `outcome`", Values: timeline.EmailOutcomes},
			{Name: "since", Usage: "only e-mails since this `time`: " + TimeUsage, Kind: Time},
			{Name: "until", Usage: "only e-mails before this `time`", Kind: Time},
		},
		Drops: []string{"ABOUT", "EVENT", "NOTE"},
	},
	read: func(ctx context.Context, e Env, q Query) (_ []timeline.Email, err error) {
		f := timeline.EmailFilter{Mode: cmp.Or(q.Text("mode"), "live"), Account: q.Text("account"),
			Kind: q.Text("kind"), Outcome: q.Text("outcome"), Since: q.time("since"),
			Until: q.time("until"), Limit: q.Limit}
		if f.After.ListedAt, f.After.Key, err = q.after(); err != nil {
			return nil, err
		}
		return timeline.Emails(ctx, e.Operator.DB, f)
	},
	cursor: func(e timeline.Email) string { return timeCursor(e.ListedAt, e.Key) },
	table:  tables.Emails,
}
