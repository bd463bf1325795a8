#!/bin/sh
# Brings Temporal's two databases to the schema of this image's version. Each step does nothing where it is done
# already, so this runs at each start, before the server: after an upgrade too.
# Takes SQL_PLUGIN, SQL_HOST, SQL_PORT, SQL_USER and SQL_PASSWORD, as temporal-sql-tool does.
set -eu

set_up() {
  temporal-sql-tool --database "$1" create-database
  temporal-sql-tool --database "$1" setup-schema --version 0.0
  temporal-sql-tool --database "$1" update-schema --schema-name "$2"
}

set_up temporal postgresql/v12/temporal
set_up temporal_visibility postgresql/v12/visibility
