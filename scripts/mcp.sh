#!/usr/bin/env bash
# Serves the tabletop pack on stdio, for MCP clients: works from any directory and does all set-up first.
#
#   scripts/mcp.sh [--addr HOST:PORT] [other flags of `hubbub serve`]
#
# stdout belongs to the protocol; the output of set-up goes to stderr.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
"$root/scripts/setup" run
exec "$root/.venv/bin/hubbub" serve --transport stdio --pack tabletop "$@"
