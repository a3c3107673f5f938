#!/bin/sh
# A composed tool in a shell pipeline: saved once, then a filter like any other. Run it: sh examples/pipeline.sh
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GO_ENT_DATA="$folder/user"
cd "$folder"
cat > visits.py <<'TOOL'
# /// tool
# name = "visits"
# ///
# /// examples
# {"inputs": {"line": "GET /a 200"}, "result": {"path": "/a", "ok": true}}
# ///
def visits(line: str) -> dict[str, str | bool]:
    """What a line of an access log says."""
    _, path, status = line.split()
    return {"path": path, "ok": status.startswith("2")}
TOOL
cat > failures.py <<'TOOL'
# /// tool
# name = "failures"
# ///
def failures(rows: list[dict[str, str | bool]]) -> list[str]:
    """The paths that failed."""
    return sorted({str(row["path"]) for row in rows if not row["ok"]})
TOOL
go-ent tool add visits.py
go-ent tool add failures.py
printf '%s\n' '"GET /a 200"' '"GET /b 500"' '"POST /a 201"' '"GET /c 404"' |
  go-ent tool run visits --each |
  go-ent tool run failures --slurp
