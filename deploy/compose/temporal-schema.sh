#!/bin/sh
# Creates Temporal's two databases and updates their schema to the version of this image. You can run the script
# again: existing data stays, and an older schema is updated.
set -eu
SQL_PASSWORD="$(cat /run/secrets/temporal_database_password)"
export SQL_PASSWORD

schema() { # DATABASE DIRECTORY
	sql="temporal-sql-tool --plugin postgres12 --ep postgres -p 5432 -u temporal --db $1"
	$sql create
	$sql setup-schema -v 0.0
	$sql update-schema -d "/etc/temporal/schema/postgresql/v12/$2/versioned"
}

schema temporal temporal
schema temporal_visibility visibility
