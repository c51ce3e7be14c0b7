#!/usr/bin/env bash
# Serves the tabletop pack on stdio, for an MCP client to start: from any directory, with all set-up done first.
#
#   scripts/mcp.sh [--addr HOST:PORT] [other flags of `hubbub serve`]
#
# stdout belongs to the protocol; whatever set-up has to say goes to stderr.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
"$root/scripts/setup" run
exec "$root/.venv/bin/hubbub" serve --transport stdio --pack tabletop "$@"
