"""A `go` that does what a test orders: a shell script, because a test starts it up to a dozen times.

The folder named by FAKE_GO holds its orders (`behaviour`) and what it records (`calls`, `pids`).
"""

from __future__ import annotations

from pathlib import Path

SCRIPT = r"""#!/bin/sh
# PATH has nothing but this script.
behaviour=good
order() { read -r behaviour < "$FAKE_GO/behaviour" || :; }
[ ! -e "$FAKE_GO/behaviour" ] || order
fail() { echo "$1" >&2; exit 1; }

list() {
  if [ "$behaviour" = "no network" ]; then
    echo "go: downloading example.com/thing v1.0.0" >&2
    address=https://me:secret@proxy.example/thing
    fail "go: thing@v1: Get \"$address\": dial tcp: lookup proxy.example: no such host"
  fi
  echo example.com/one
  echo example.com/two
}

build() {
  while [ "$1" != -o ]; do shift; done
  target=$2
  echo example.com/one >&2
  case $behaviour in
    "no space") echo "half a prog" > "$target"; fail "write $target: no space left on device" ;;
    killed) kill -KILL $$ ;;
    "compiler killed") fail "example.com/two: /opt/go/pkg/tool/linux_amd64/compile: signal: killed" ;;
    mistake) fail "one.go:1:2: undefined: thing" ;;
    slow)
      /bin/sleep 600 &
      child=$!
      echo "$$ $child" > "$FAKE_GO/pids"
      while [ "$behaviour" = slow ]; do /bin/sleep 0.02; order; done
      kill -KILL $child ;;
  esac
  version=v3.259.0
  [ "$behaviour" != "wrong version" ] || version=v1.0.0
  printf '#!/bin/sh\necho %s\n' $version > "$target"
  /bin/chmod 755 "$target"
}

mod() {
  module=$FAKE_GO/modules/sdk
  /bin/mkdir -p "$module/python/cmd"
  echo "# the executor" > "$module/python/cmd/pulumi-language-python-exec"
  echo "{\"Dir\": \"$module\"}"
}

case "$1 $2" in
  "env GOVERSION") [ "$behaviour" = old ] && echo go1.20.1 || echo go1.27.3; exit ;;
  "env -json") echo "{\"GOCACHE\": \"$FAKE_GO/objects\", \"GOMODCACHE\": \"$FAKE_GO/modules\"}"; exit ;;
esac
echo "$*" >> "$FAKE_GO/calls"
case $1 in
  list | build | mod) "$@" ;;
  *) exit 2 ;;
esac
"""


def install(folder: Path) -> Path:
    """Put it into a folder as `go`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "go"
    path.write_text(SCRIPT, encoding="utf-8")
    path.chmod(0o755)
    return path


def program(text: str) -> str:
    """A program that prints a text, whatever its arguments."""
    return f"#!/bin/sh\necho '{text}'\n"
