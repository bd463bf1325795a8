#!/usr/bin/env bash
# Schemathesis against a running Holdfast: `scripts/schemathesis.sh URL [options of "st run"]`. Installs it into
# .schemathesis/ when it is not there; exits with 69 when it cannot (no Python, offline), else as Schemathesis does.
# `--install` only installs.
set -euo pipefail
readonly UNAVAILABLE=69
root="$(cd "$(dirname "$0")/.." && pwd)"
requirements="$root/scripts/schemathesis-requirements.txt"
home="$root/.schemathesis"
venv="$home/venv"

install() {
  # The copy is written last: an install that was broken off is begun anew.
  if cmp -s "$requirements" "$venv/installed.txt" && [ -x "$venv/bin/st" ]; then return; fi
  rm -rf "$venv"
  mkdir -p "$home"
  python3 -m venv "$venv" &&
    "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 15 -r "$requirements" &&
    cp "$requirements" "$venv/installed.txt"
}

if ! install >&2; then
  echo 'schemathesis cannot be installed: Python 3.10 or later and a package index are needed' >&2
  exit "$UNAVAILABLE"
fi
if [ "${1:-}" = --install ]; then exit 0; fi
url="${1:?the URL of a Holdfast}"
shift

# Tasks that are there, as JSON: half of the paths name one of them, else nearly every command would meet a 404.
tasks="${SCHEMATHESIS_TASKS:-[\"t1\"]}"

cat >"$home/schemathesis.toml" <<TOML
hooks = "hooks.py"
# Nothing of an earlier run.
cache.enabled = false

# Any 5xx fails, a documented 503 too: nothing is wrong here.
[checks]
enabled = true
# 422 is no word on the form: the key was used with another body, or there is no such parent. A 5xx is for the check above.
positive_data_acceptance.expected-statuses = ["2xx", "3xx", "404", "409", "422", "429"]
negative_data_rejection.expected-statuses = ["400", "401", "404", "405", "406", "413", "415", "431"]

[dictionaries]
tasks = { values = $tasks }
assets = { values = ["swagger-ui.css", "swagger-ui-bundle.js", "initializer.js", "favicon-32x32.png"] }

[parameters]
"path.taskId" = { dictionary = "tasks", probability = 0.5 }
"path.asset" = { dictionary = "assets", probability = 0.5 }
TOML

cat >"$home/hooks.py" <<'PYTHON'
import itertools

import schemathesis

LARGEST = 2**53 - 1
fresh_keys = (f"fresh-{number}" for number in itertools.count())


def kept(value):
    """Without integers that JSON parsers would change silently: docs/api.md refuses them, no schema of any JSON can."""
    if isinstance(value, dict):
        return {name: kept(each) for name, each in value.items()}
    if isinstance(value, list):
        return [kept(each) for each in value]
    is_beyond = isinstance(value, (int, float)) and not -LARGEST <= value <= LARGEST
    return LARGEST if is_beyond else value


@schemathesis.hook
def before_call(context, case, kwargs):
    # Wrong requests stay as they are.
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    # Page tokens are opaque, and belong to a filter: no schema can say which text is one.
    if case.query:
        case.query.pop("pageToken", None)
    # The generator likes "0": every request but the first would be 422 for its key, and get no further.
    if case.headers and case.headers.get("Idempotency-Key") == "0":
        case.headers["Idempotency-Key"] = next(fresh_keys)
    if isinstance(case.body, (dict, list)):
        case.body = kept(case.body)
PYTHON

cd "$home"
exec "$venv/bin/st" --config-file "$home/schemathesis.toml" run "$url/openapi.json" \
  --include-path-regex . `# else the route of the document itself is left out` \
  --phases examples,coverage,fuzzing \
  --mode all \
  --max-examples "${SCHEMATHESIS_EXAMPLES:-40}" \
  --seed "${SCHEMATHESIS_SEED:-20260131}" \
  --generation-database none \
  --workers 1 \
  --request-timeout 40 \
  --no-color \
  "$@"
