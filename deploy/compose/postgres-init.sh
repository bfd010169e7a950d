#!/bin/bash
# Runs in the Postgres image while its volume is new: a database for pawl with a role that owns it and migrates, one for
# each of its processes, which may do what `pawl migrate` grants them, and a role that may make Temporal's two
# databases. pawl and Temporal cannot read each other's.
set -euo pipefail
# The backquotes are psql's: it reads the passwords itself, so that none of them is an argument that ps shows.
psql --set ON_ERROR_STOP=1 --username postgres --dbname postgres <<'SQL'
\set owner `cat /run/secrets/pawl_owner_password`
\set ingress `cat /run/secrets/pawl_ingress_password`
\set worker `cat /run/secrets/pawl_worker_password`
\set console `cat /run/secrets/pawl_console_password`
\set temporal `cat /run/secrets/temporal_database_password`
create role pawl login password :'owner';
create role pawl_ingress login password :'ingress';
create role pawl_worker login password :'worker';
create role pawl_console login password :'console';
create database pawl owner pawl;
revoke connect on database pawl from public;
grant connect on database pawl to pawl_ingress, pawl_worker, pawl_console;
create role temporal login createdb password :'temporal';
SQL
