package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/notice"
)

const (
	// noticePass is how often a worker compares the current conditions with the stored notifications.
	noticePass = 15 * time.Second
	// noticeSend is how often a worker looks for messages to send. Another worker may have written them.
	noticeSend = 2 * time.Second
	// heartbeat is how often a process calls the heartbeat URL.
	heartbeat = time.Minute
)

// notify sends notifications until ctx ends. Each sink has a goroutine of its own, so that a sink that does not respond
// does not delay the others.
func (n *Node) notify(ctx context.Context, group *errgroup.Group) {
	n.beat(ctx, group, Worker)
	sinks := NotifySinks(n.Config)
	if len(sinks) == 0 {
		return
	}
	group.Go(func() error {
		n.every(ctx, noticePass, "update notifications", func(ctx context.Context) error {
			return n.pass(ctx, n.operator, sinks, notice.Quiescence)
		})
		return nil
	})
	to := &activities.NotifySinks{Effects: n.effects, Notices: notice.New(n.Pool)}
	for _, s := range sinks {
		s.Policy = n.gates.policy(s.of, "")
		group.Go(func() error {
			n.every(ctx, noticeSend, "tell "+s.Name, func(ctx context.Context) error {
				for {
					if found, err := to.SendNext(ctx, s.NotifySink); !found || err != nil {
						return err
					}
				}
			})
			return nil
		})
	}
}

// pass compares the current conditions with the stored notifications. If one kind of condition cannot be read, the
// others are still notified.
func (n *Node) pass(ctx context.Context, o *decide.Operator, sinks []NotifySink, quiescence time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, quiescence)
	defer cancel()
	p := notice.Pass{Quiet: n.Config.Notify.Quiet.At(time.Now()), Quiescence: quiescence}
	var faults []error
	found, unread := condition.Reader{Operator: o, Config: n.Config, AuditBroken: n.auditBroken.Load()}.Read(ctx)
	p.Found = condition.Notified(found)
	for kind, err := range unread {
		p.Unread = append(p.Unread, kind)
		faults = append(faults, err)
	}
	for _, s := range sinks {
		if s.PagesOnly {
			p.Pagers = append(p.Pagers, s.Name)
		} else {
			p.Sinks = append(p.Sinks, s.Name)
		}
	}
	return errors.Join(append(faults, notice.New(n.Pool).Run(ctx, p))...)
}

// NotifySink is a configured sink of notifications.
type NotifySink struct {
	activities.NotifySink
	of config.Target
}

// NotifySinks returns the configured sinks of notifications. They have no limits yet; a worker adds them.
func NotifySinks(c *config.Config) (list []NotifySink) {
	client := httpcall.NewClient()
	for _, s := range c.Targets() {
		if s.Notify == nil {
			continue
		}
		of := s.Notify
		to := activities.NotifySink{Name: s.Name, URL: of.URL.Value(), Token: of.Token.Value(), Client: client,
			Slack: of.Kind == config.NotifySlack, PagesOnly: of.Only == "pages", Runbooks: c.Notify.Runbooks}
		if of.Kind == config.NotifyEmail {
			to.Mailer, to.From, to.To = mailer(of.MailServer), of.From, of.To
		}
		list = append(list, NotifySink{to, s})
	}
	return list
}

// beat calls the heartbeat URL every minute while the process works. If the calls stop, the receiver alerts.
func (n *Node) beat(ctx context.Context, group *errgroup.Group, kind Kind) {
	if n.Config.Notify.Heartbeat.Value() == "" {
		return
	}
	client := httpcall.NewClient()
	to := strings.ReplaceAll(n.Config.Notify.Heartbeat.Value(), "{process}", string(kind))
	group.Go(func() error {
		n.every(ctx, heartbeat, "call the heartbeat", func(ctx context.Context) error {
			return n.beatOnce(ctx, client, to, kind)
		})
		return nil
	})
}

// beatOnce calls the heartbeat URL if the main part of the process works. For a worker, Temporal must respond as well.
// The error does not contain the URL, which may be a secret.
func (n *Node) beatOnce(ctx context.Context, client *http.Client, to string, kind Kind) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := working(ctx, n, kind); err != nil {
		return fmt.Errorf("not called: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return errors.New("the URL is invalid")
	}
	resp, err := client.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %d", req.URL.Host, resp.StatusCode)
	}
	return nil
}
