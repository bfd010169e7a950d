// Package namespace sets up a Temporal namespace for pawl: the namespace, its retention and the search attributes of
// runs. It changes nothing that exists, except the retention if the caller requests it.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
)

// pause is the time between two attempts. A new namespace is known to every part of a server after some seconds.
const pause = 500 * time.Millisecond

// call limits one request.
const call = 10 * time.Second

// Setup describes the namespace that [Setup.Run] creates. Client, Name and Attributes must be set.
type Setup struct {
	Client client.Client
	Name   string
	// Attributes are the names of search attributes of the type Keyword.
	Attributes []string
	// Retention is how long Temporal keeps ended runs in a new namespace. If Update is set, an existing namespace also
	// gets this retention.
	Retention time.Duration
	Update    bool
	// DryRun reads the namespace and reports the changes, without making them.
	DryRun bool
	// Wait limits the waits for a server that does not respond yet, and for a new namespace or attribute to be known.
	Wait time.Duration
	// Waiting is called with the reason of each wait.
	Waiting func(error)
}

// Step is one part of the setup with its outcome.
type Step struct {
	What string `json:"what"`
	// Outcome is "created", "changed", "exists", "would be created" or "would be changed".
	Outcome string `json:"outcome"`
}

// The outcomes.
const (
	Created     = "created"
	Changed     = "changed"
	Exists      = "exists"
	WouldCreate = "would be created"
	WouldChange = "would be changed"
)

// Run sets up the namespace. It can run again at any time. After an error, the returned steps have been made.
func (s Setup) Run(ctx context.Context) (steps []Step, err error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	steps, created, err := s.namespace(ctx)
	if err != nil {
		return steps, err
	}
	if created && s.DryRun { // the attributes of a namespace that does not exist cannot be read
		for _, name := range s.Attributes {
			steps = append(steps, Step{attribute(name), WouldCreate})
		}
		return steps, nil
	}
	more, err := s.attributes(ctx)
	return append(steps, more...), err
}

func attribute(name string) string { return "search attribute " + name }

// reach waits until the server responds.
func (s Setup) reach(ctx context.Context) error {
	err := s.until(ctx, func(ctx context.Context) error {
		_, err := s.Client.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	}, codes.Unavailable, codes.DeadlineExceeded, codes.Unknown)
	if err != nil {
		return fmt.Errorf("connect to Temporal: %w", err)
	}
	return nil
}

// namespace creates the namespace if it does not exist. created is also true for a dry run that would create it.
func (s Setup) namespace(ctx context.Context) (steps []Step, created bool, err error) {
	service, what := s.Client.WorkflowService(), "namespace "+s.Name
	var described *workflowservice.DescribeNamespaceResponse
	err = s.until(ctx, func(ctx context.Context) (err error) {
		described, err = service.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.Name})
		return err
	}, codes.Unavailable, codes.DeadlineExceeded)
	switch code := serviceerror.ToStatus(err).Code(); {
	case code == codes.NotFound && s.DryRun:
		return []Step{{what, WouldCreate}}, true, nil
	case code == codes.NotFound:
		_, err := service.RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace: s.Name, WorkflowExecutionRetentionPeriod: durationpb.New(s.Retention),
		})
		var exists *serviceerror.NamespaceAlreadyExists
		if err != nil && !errors.As(err, &exists) {
			return nil, false, s.denied(err, "create the namespace", s.Attributes)
		}
		return []Step{{what, Created}}, true, nil
	case err != nil:
		return nil, false, s.denied(err, "describe the namespace", s.Attributes)
	}
	if state := described.GetNamespaceInfo().GetState(); state != enumspb.NAMESPACE_STATE_REGISTERED {
		return nil, false, fmt.Errorf("the namespace %s is %s: Temporal starts no workflow in it", s.Name, state)
	}
	steps = []Step{{what, Exists}}
	step, err := s.retention(ctx, described.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration())
	return append(steps, step...), false, err
}

// retention changes the retention of an existing namespace if the caller requests it.
func (s Setup) retention(ctx context.Context, held time.Duration) ([]Step, error) {
	if !s.Update || held == s.Retention {
		return []Step{{"retention of " + days(held), Exists}}, nil
	}
	what := "retention of " + days(s.Retention) + " instead of " + days(held)
	if s.DryRun {
		return []Step{{what, WouldChange}}, nil
	}
	_, err := s.Client.WorkflowService().UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
		Namespace: s.Name,
		Config:    &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(s.Retention)},
	})
	if err != nil {
		return nil, s.denied(err, "change the retention", nil)
	}
	return []Step{{what, Changed}}, nil
}

// attributes registers the missing search attributes, and waits until the server lists them.
func (s Setup) attributes(ctx context.Context) (steps []Step, err error) {
	missing, err := s.missing(ctx)
	if err != nil {
		return nil, err
	}
	outcome := Created
	if s.DryRun {
		outcome = WouldCreate
	}
	for _, name := range s.Attributes {
		if slices.Contains(missing, name) {
			steps = append(steps, Step{attribute(name), outcome})
		} else {
			steps = append(steps, Step{attribute(name), Exists})
		}
	}
	if len(missing) == 0 || s.DryRun {
		return steps, nil
	}
	wanted := map[string]enumspb.IndexedValueType{}
	for _, name := range missing {
		wanted[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	_, err = s.Client.OperatorService().AddSearchAttributes(ctx,
		&operatorservice.AddSearchAttributesRequest{Namespace: s.Name, SearchAttributes: wanted})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return nil, s.denied(err, "register search attributes", missing)
	}
	var left []string
	err = s.until(ctx, func(ctx context.Context) (err error) {
		if left, err = s.list(ctx); err == nil && len(left) > 0 {
			err = serviceerror.NewUnavailable("the namespace does not list " + strings.Join(left, ", ") + " yet")
		}
		return err
	}, codes.Unavailable, codes.DeadlineExceeded)
	return steps, err
}

// missing returns the search attributes that the namespace lacks. It waits until a new namespace is known.
func (s Setup) missing(ctx context.Context) (names []string, err error) {
	err = s.until(ctx, func(ctx context.Context) (err error) {
		names, err = s.list(ctx)
		return err
	}, codes.NotFound, codes.Unavailable, codes.DeadlineExceeded)
	var kind *kindError
	if err != nil && !errors.As(err, &kind) {
		return nil, s.denied(err, "list search attributes", s.Attributes)
	}
	return names, err
}

// list returns the search attributes that the namespace lacks now.
func (s Setup) list(ctx context.Context) (missing []string, err error) {
	held, err := s.Client.OperatorService().ListSearchAttributes(ctx,
		&operatorservice.ListSearchAttributesRequest{Namespace: s.Name})
	if err != nil {
		return nil, err
	}
	for _, name := range s.Attributes {
		switch kind, found := held.GetCustomAttributes()[name]; {
		case !found:
			missing = append(missing, name)
		case kind != enumspb.INDEXED_VALUE_TYPE_KEYWORD:
			return nil, &kindError{name, kind}
		}
	}
	return missing, nil
}

// kindError is a search attribute with another type. Temporal cannot change a type.
type kindError struct {
	name string
	kind enumspb.IndexedValueType
}

func (e *kindError) Error() string {
	return fmt.Sprintf("the search attribute %s has the type %s, but pawl needs Keyword: remove it with `temporal operator "+
		"search-attribute remove --name %[1]s`, and run this command again", e.name, e.kind)
}

// until calls f until it succeeds, until it fails with another code than these, or until the wait is over.
func (s Setup) until(ctx context.Context, f func(context.Context) error, retry ...codes.Code) error {
	end := time.Now().Add(s.Wait)
	for {
		err := limited(ctx, f)
		if err == nil || ctx.Err() != nil || !slices.Contains(retry, serviceerror.ToStatus(err).Code()) ||
			!time.Now().Before(end) {
			return err
		}
		if s.Waiting != nil {
			s.Waiting(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// limited calls f with the time limit of one request.
func limited(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	return f(ctx)
}

// denied completes an error about a missing permission with the commands for an administrator.
func (s Setup) denied(err error, what string, attributes []string) error {
	switch serviceerror.ToStatus(err).Code() {
	case codes.Unauthenticated:
		return fmt.Errorf("%s: Temporal does not accept the credentials (TEMPORAL_API_KEY or the client certificate): %w",
			what, err)
	case codes.PermissionDenied, codes.Unimplemented:
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	commands := "`tcld namespace create --namespace NAME --region REGION --retention-days 30`"
	if len(attributes) > 0 {
		commands += "\n  `tcld namespace search-attributes add --namespace " + s.Name
		for _, name := range attributes {
			commands += fmt.Sprintf(" --search-attribute \"%s=Keyword\"", name)
		}
		commands += "`"
	}
	return fmt.Errorf("no permission to %s: %w\nOn Temporal Cloud, an administrator does it on the web page, or with "+
		"these commands (the first one only if the namespace does not exist):\n  %s", what, err, commands)
}

// days formats a duration in days if it is a whole number of days.
func days(d time.Duration) string {
	if d >= 24*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return d.String()
}
