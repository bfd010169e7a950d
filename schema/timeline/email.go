package timeline

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Email is an e-mail to a customer in a list. It contains no address.
type Email struct {
	// Key is the effect key.
	Key  string `json:"key"`
	Kind string `json:"kind"`
	Mode string `json:"mode"`
	// Account is the account in pawl, or the customer if the account is unknown.
	Account string `json:"account"`
	// Object is the object that the e-mail is about, and Number the number of its invoice, or "".
	Object string `json:"object"`
	Number string `json:"number"`
	// Outcome is one of [EmailOutcomes].
	Outcome string `json:"outcome"`
	// ListedAt orders the list: it is when the e-mail was sent or skipped. Otherwise it is the first attempt.
	ListedAt time.Time `json:"listed_at"`
	// SentAt is null if the e-mail was not sent, or if this is unknown.
	SentAt        *time.Time `json:"sent_at"`
	LastAttemptAt time.Time  `json:"last_attempt_at"`
	Attempts      int        `json:"attempts"`
	// Corrected is set if the e-mail was sent, and its event was taken back later.
	Corrected bool `json:"corrected"`
	// PossiblyTwice is set if the e-mail was sent after an attempt with an unknown outcome.
	PossiblyTwice bool `json:"possibly_twice"`
	// MayHaveArrived is set if the e-mail counts as not sent, but the mail server did not confirm an earlier attempt.
	MayHaveArrived bool `json:"may_have_arrived"`
	// Reason explains an e-mail that was not sent by pawl: the answer of the mail server, or the words of a person.
	Reason string `json:"reason"`
	// Parked is set if the event is parked and requires a decision about this e-mail.
	Parked bool `json:"parked"`
	// Event is the ID of the event that caused the e-mail, and Receipt the ID of its receipt.
	Event   string `json:"event"`
	Receipt string `json:"receipt"`
	// Waits describes the parked run of the event. It is nil if the event is not parked.
	Waits *receipt.Waits `json:"-"`
}

// emailKinds is the condition of the index effects_emails.
const emailKinds = `'receipt-email', 'order-email', 'correction-notice', 'action-required-notice', 'dunning-notice', 'trial-ending-notice',
                'subscription-changed-notice', 'subscription-ended-notice', 'access-ending-notice', 'access-ended-notice'`

// EmailKinds lists the kinds of effects that are e-mails to customers.
var EmailKinds = strings.FieldsFunc(emailKinds, func(r rune) bool { return strings.ContainsRune("', \n", r) })

// EmailOutcomes lists the outcomes of e-mails. An unclear e-mail may have been sent. A waiting e-mail is sent later. An
// e-mail was taken back if its event was taken back before the mail server confirmed the e-mail.
var EmailOutcomes = []string{"sent", "waiting", "unclear", "failed", "skipped", "taken_back"}

// EmailFilter filters e-mails. Mode is required.
type EmailFilter struct {
	Mode, Account, Kind, Outcome string
	// Since and Until bound [Email.ListedAt]. Until is exclusive. The zero value is no bound.
	Since, Until time.Time
	// Newest limits the list of an account to the e-mails of its newest events. 0 is no limit.
	Newest int
	// After is the last e-mail of the previous page. Only its ListedAt and Key are read.
	After Email
	// Limit is the maximum number of e-mails.
	Limit int
}

const (
	// emailOutcome and emailAt are columns of the index effects_emails.
	emailOutcome = `case when state = 'done' or (state = 'compensated' and done_at is not null) then 'sent' when state = 'compensated' then 'taken_back'
          when state = 'uncertain' then 'unclear' when state = 'failed' and error_class <> 'transient' then 'failed'
          when state in ('claimed', 'failed') then 'waiting' else state end`
	emailAt = `coalesce(done_at, claimed_at)`
	// emailColumns are the columns of an e-mail. The part of an error after the dash is the text of the mail server,
	// which may contain an address, and so may the words of a person.
	emailColumns = `key, kind, split_part(key, ':', 3) as mode, ` + emailOutcome + ` as outcome, ` + emailAt + ` as listed_at, state, receipt_id,
               event_id, attempts, generation, regexp_replace(split_part(error, ' – ', 1), '\S+@\S+', '(address)', 'g') as error, done_at, claimed_at,
               coalesce(result @> '{"Unanswered": true}' or result @> '{"UnansweredBefore": true}', false)
                   or state = 'claimed' and committing and lease_until < now() as unanswered`
	// emailSubject reads the object in the key of e-mail e, as the event of the e-mail states it, or otherwise as the
	// newest event does. If no event states the object, the account is the account of the event.
	emailSubject = `
  left join lateral (select account, waits from receipts where id = e.receipt_id) r on true
 cross join lateral (select split_part(e.key, ':', case when coalesce(r.account, '') = '' then 4 else 5 end) collate "default" as object) x
  left join lateral (select account, number from event_subjects where receipt_id = e.receipt_id and object = x.object) own on true
  left join lateral (select account, number from event_subjects where object = x.object and own.account is null order by receipt_id desc limit 1) newest on true
  left join lateral (select account from event_subjects where receipt_id = e.receipt_id and main limit 1) event on true
 cross join lateral (select coalesce(nullif(own.account, ''), nullif(newest.account, ''), event.account, '') as account) about`
	// shownEmails completes the e-mails of the page. It ignores attempts of other events, which found the e-mail done.
	shownEmails = `
select e.key, e.kind, e.mode, about.account, x.object, coalesce(own.number, newest.number, '') as number, e.outcome, e.listed_at,
       case when e.outcome = 'sent' then e.done_at end as sent_at,
       coalesce(tried.last, e.done_at, e.claimed_at) as last_attempt_at, e.attempts,
       e.state = 'compensated' and e.outcome = 'sent' as corrected,
       e.outcome = 'sent' and (e.unanswered or coalesce(tried.unclear, false)) as possibly_twice,
       e.outcome not in ('sent', 'unclear') and (e.unanswered or coalesce(tried.unclear, false)) as may_have_arrived,
       e.error as reason, e.event_id as event, e.receipt_id::text as receipt, r.waits, false as parked
  from page e` + emailSubject + `
  left join lateral (
       select max(a.ended_at) as last, bool_or(a.outcome = 'uncertain' or a.error like 'the outcome is unknown%') as unclear
         from effect_attempts a where a.key = e.key and a.outcome <> 'already_done') tried on true
 order by e.listed_at desc, e.key desc`
)

// emailsSQL reads the newest e-mails of each kind and outcome, because the index begins with mode, kind and outcome.
const emailsSQL = `
with page as materialized (
    select f.* from unnest($2::text[]) k (kind) cross join unnest($3::text[]) o (outcome) cross join lateral (
        select ` + emailColumns + ` from effects
         where effects.kind in (` + emailKinds + `) and split_part(key, ':', 3) = $1 and effects.kind = k.kind
           and ` + emailOutcome + ` = o.outcome and ` + emailAt + ` >= $4 and ` + emailAt + ` < $5 and (` + emailAt + `, key) < ($6, $7)
         order by ` + emailAt + ` desc, key desc limit $8) f
     order by f.listed_at desc, f.key desc limit $8)` + shownEmails

// accountEmailsSQL reads the effects of the newest events of an account.
const accountEmailsSQL = `
with mine as materialized (
    select distinct receipt_id from event_subjects where account = $9 and account <> '' order by receipt_id desc limit nullif($10::bigint, 0)
), page as materialized (
    select e.* from mine cross join lateral (
        select ` + emailColumns + ` from effects where effects.receipt_id = mine.receipt_id and effects.kind in (` + emailKinds + `) offset 0) e` +
	emailSubject + `
     where e.mode = $1 and e.kind = any($2) and e.outcome = any($3) and e.listed_at >= $4 and e.listed_at < $5
       and (e.listed_at, e.key) < ($6, $7) and about.account = $9
     order by e.listed_at desc, e.key desc limit $8)` + shownEmails

// Emails returns the e-mails that match f, newest first. An e-mail that waits for its first attempt is not in the list.
func Emails(ctx context.Context, db schema.Querier, f EmailFilter) ([]Email, error) {
	kinds, outcomes, until := EmailKinds, EmailOutcomes, schema.Until(f.Until)
	if f.Kind != "" {
		kinds = []string{f.Kind}
	}
	if f.Outcome != "" {
		outcomes = []string{f.Outcome}
	}
	after, key := f.After.ListedAt, f.After.Key
	if key == "" {
		after = until
	}
	sql, args := emailsSQL, []any{f.Mode, kinds, outcomes, f.Since, until, after, key, f.Limit}
	if f.Account != "" {
		sql, args = accountEmailsSQL, append(args, f.Account, f.Newest)
	}
	list, err := schema.List[Email](ctx, db, "list e-mails", sql, args...)
	for i, e := range list {
		list[i].Parked = e.Waits != nil && slices.Contains(e.Waits.Keys(), e.Key)
	}
	return list, err
}
