#!/bin/bash
# Runs in the Postgres image while its volume is new: a role and its database for pawl, and a role that may
# make Temporal's two databases. Neither can read the other's.
set -euo pipefail
psql --set ON_ERROR_STOP=1 --username postgres --dbname postgres \
	--set "pawl=$(cat /run/secrets/pawl_database_password)" \
	--set "temporal=$(cat /run/secrets/temporal_database_password)" <<'SQL'
create role pawl login password :'pawl';
create database pawl owner pawl;
revoke connect on database pawl from public;
create role temporal login createdb password :'temporal';
SQL
