#!/bin/bash
# Postgres runs this script when the volume is new. It creates pawl's database, a role that owns and migrates it, a
# role for each process with the rights that `pawl migrate` grants, and a role that can create Temporal's two
# databases. pawl and Temporal cannot read each other's data.
set -euo pipefail
# psql evaluates the backquotes and reads the passwords itself, so that ps never shows them as arguments.
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
revoke connect, temporary on database pawl from public;
grant connect on database pawl to pawl_ingress, pawl_worker, pawl_console;
create role temporal login createdb password :'temporal';
SQL
