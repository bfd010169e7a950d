package main

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// parseDSN reads the DSN that name refers to. Its error holds no part of the DSN, as pgx's own do: where a
// password is not encoded, what they leave visible is a piece of it.
func parseDSN(name, dsn string) (*pgxpool.Config, error) {
	options, err := pgxpool.ParseConfig(dsn)
	// After a password with "@" and "/" in it, the rest of it would be told as the database's name.
	if err != nil || strings.Contains(options.ConnConfig.Database, "@") {
		return nil, fmt.Errorf("database: %s is no Postgres DSN: write postgres://user:password@host:5432/database, with %%40 for @ and %%2F for / in the password", name)
	}
	return options, nil
}
