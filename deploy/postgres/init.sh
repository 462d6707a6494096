#!/bin/bash
# Runs once, when the volume of PostgreSQL is new: a database and a role of its own for the coordinator and for each
# bank. No role can connect to another's database. Passwords come from the environment and are on no command line.
set -euo pipefail
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d postgres <<'SQL'
\getenv coordinator_password COORDINATOR_PASSWORD
\getenv bank_a_password BANK_A_PASSWORD
\getenv bank_b_password BANK_B_PASSWORD
CREATE ROLE coordinator LOGIN PASSWORD :'coordinator_password';
CREATE ROLE bank_a LOGIN PASSWORD :'bank_a_password';
CREATE ROLE bank_b LOGIN PASSWORD :'bank_b_password';
CREATE DATABASE coordinator OWNER coordinator;
CREATE DATABASE bank_a OWNER bank_a;
CREATE DATABASE bank_b OWNER bank_b;
REVOKE CONNECT ON DATABASE coordinator, bank_a, bank_b FROM PUBLIC;
SQL
