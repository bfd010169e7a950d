package operator_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	operatortoken "github.com/pawlhq/pawl/cmd/internal/operator/token"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/token"
)

var admin = &decide.Person{Name: "ada", Roles: []role.Role{role.Admin}}

func newToken(name, request string, args decide.Args) decide.Decision {
	return decide.Decision{Verb: operatortoken.New.Name, Target: name, By: admin, Reason: "the shop asks", Request: request, Args: args}
}

// The secret of a token is returned once, to the person who created the token, and is stored nowhere.
func TestToken_ShownOnceAndKeptNowhere(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	o := over(db, says(nil))
	args := decide.Args{Role: "viewer", Expires: "90d", Networks: "10.0.0.0/8, 192.0.2.7"}
	if p, err := o.Preview(t.Context(), newToken("shop", "", args)); err != nil || p.Failed() {
		t.Fatalf("preview: %+v, %v", p, err)
	}
	answer, err := o.Decide(t.Context(), newToken("shop", "r-1", args))
	if err != nil {
		t.Fatal(err)
	}
	text := answer.Result.(*operatortoken.Result).Token
	if !token.WellFormed(text) {
		t.Fatalf("answered %+v: %q is no token", answer, text)
	}
	again, err := o.Decide(t.Context(), newToken("shop", "r-1", args))
	if err != nil || !again.Repeated || again.Result.(*operatortoken.Result).Token != "" {
		t.Errorf("the request once more: %+v, %v; want it without its text", again, err)
	}
	if _, err := o.Decide(t.Context(), newToken("shop", "r-2", args)); !is[*decide.RefusedError](err) {
		t.Errorf("its name once more: %v, want a refusal", err)
	}
	var trail, row string
	if err := db.QueryRow(t.Context(), `select (select string_agg(a::text, ' ') from operator_actions a), (select t::text from tokens t)`).Scan(&trail, &row); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(trail+row, text[5:20]) || !strings.Contains(trail, "ada") {
		t.Errorf("the trail or the table has the token: %s\n%s", trail, row)
	}
	tokens := operatortoken.NewTokens(db, time.Minute)
	for from, want := range map[string]error{"10.9.8.7": nil, "192.0.2.7": nil, "192.0.2.8": operatortoken.ErrToken, "::1": operatortoken.ErrToken} {
		p, err := tokens.Person(t.Context(), text, from)
		if !errors.Is(err, want) || err == nil && (p.Name != "token:shop" || !p.May(role.RightRead) || p.May(role.RightTasks)) {
			t.Errorf("from %s: %+v, %v", from, p, err)
		}
	}
	all, err := token.List(t.Context(), db)
	if err != nil || len(all) != 1 || all[0].UsedAt == nil || all[0].MadeBy != "ada" || time.Until(*all[0].ExpiresAt) < 89*24*time.Hour {
		t.Errorf("listed %+v, %v", all, err)
	}
}

// All reasons for a rejected token produce the same error.
func TestToken_NotAccepted_OneError(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	o := over(db, says(nil))
	texts := map[string]string{"never made": token.New(), "no token": "pawl_x", "empty": ""}
	for _, name := range []string{"revoked", "expired"} {
		answer, err := o.Decide(t.Context(), newToken(name, "", decide.Args{Role: "admin", Expires: "never", Networks: "all"}))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = answer.Result.(*operatortoken.Result).Token
	}
	revoke := decide.Decision{Verb: operatortoken.Revoke.Name, Target: "revoked", By: admin, Reason: "it leaked"}
	if _, err := o.Decide(t.Context(), revoke); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Decide(t.Context(), revoke); !is[*decide.RefusedError](err) {
		t.Errorf("revoked again: %v, want a refusal", err)
	}
	revoke.Target = "none"
	if _, err := o.Decide(t.Context(), revoke); !decide.IsFault(err, decide.Unknown) {
		t.Errorf("one that is not there: %v, want that it is unknown", err)
	}
	if _, err := db.Exec(t.Context(), `update tokens set expires_at = now() where name = 'expired'`); err != nil {
		t.Fatal(err)
	}
	tokens := operatortoken.NewTokens(db, time.Minute)
	for name, text := range texts {
		if p, err := tokens.Person(t.Context(), text, "::1"); p != nil || err == nil || err.Error() != operatortoken.ErrToken.Error() {
			t.Errorf("%s: %+v, %v; want %v", name, p, err, operatortoken.ErrToken)
		}
	}
	for name, d := range map[string]decide.Decision{
		"name": newToken("a b", "", decide.Args{Role: "viewer", Expires: "1d"}), "role": newToken("a", "", decide.Args{Role: "root", Expires: "1d"}),
		"past": newToken("a", "", decide.Args{Role: "viewer", Expires: "2020-01-01"}), "no end": newToken("a", "", decide.Args{Role: "viewer"}),
		"no network": newToken("a", "", decide.Args{Role: "viewer", Expires: "1d"}), "blank network": newToken("a", "", decide.Args{Role: "viewer", Expires: "1d", Networks: " , "}),
		"no text": newToken("a", "", decide.Args{Role: "viewer", Expires: "1d", Networks: "\xff"}),
		"network": newToken("a", "", decide.Args{Role: "viewer", Expires: "1d", Networks: "10.0.0.0/99"}),
	} {
		if _, err := o.Decide(t.Context(), d); !decide.IsFault(err, decide.Invalid) {
			t.Errorf("wrong %s: %v, want that it cannot be understood", name, err)
		}
	}
}

// A token cannot create a token with more rights, other networks or a longer life than its own.
func TestToken_MakesNothingWiderThanItself(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	o := over(db, says(nil))
	made, err := o.Decide(t.Context(), newToken("deployer", "", decide.Args{Role: "admin", Expires: "10d", Networks: "10.0.0.0/8"}))
	if err != nil {
		t.Fatal(err)
	}
	deployer, err := operatortoken.NewTokens(db, time.Minute).Person(t.Context(), made.Result.(*operatortoken.Result).Token, "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args decide.Args
		says string // "" if the token is created
	}{
		"narrower":       {decide.Args{Role: "viewer", Expires: "1d", Networks: "10.1.0.0/16,10.2.3.4"}, ""},
		"the-same":       {decide.Args{Role: "admin", Expires: "9d", Networks: "10.0.0.0/8"}, ""},
		"everywhere":     {decide.Args{Role: "viewer", Expires: "1d", Networks: "all"}, "networks: a token cannot create a token"},
		"larger-network": {decide.Args{Role: "viewer", Expires: "1d", Networks: "10.0.0.0/7"}, "networks: a token cannot create a token"},
		"elsewhere":      {decide.Args{Role: "viewer", Expires: "1d", Networks: "10.0.0.1,192.0.2.1"}, "networks: a token cannot create a token"},
		"longer":         {decide.Args{Role: "viewer", Expires: "11d", Networks: "10.0.0.1"}, "expires: a token cannot create a token"},
		"for-ever":       {decide.Args{Role: "viewer", Expires: "never", Networks: "10.0.0.1"}, "expires: a token cannot create a token"},
	} {
		d := newToken(name, "", tt.args)
		d.By = deployer
		if _, err := o.Decide(t.Context(), d); tt.says == "" && err != nil || tt.says != "" && (!decide.IsFault(err, decide.Forbidden) || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
