#!/bin/sh
# The programs that some tests need: installed where that is possible without asking, named where it is not. SYSTEM=no skips it.
# Arguments: other programs, each with its package, such as valgrind:valgrind.
missing=""
[ $# -gt 0 ] || set -- bwrap:bubblewrap rg:ripgrep chromium:chromium
for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
[ -z "$missing" ] && exit 0
install="apt-get install --yes$missing"
if [ "$SYSTEM" != no ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing$missing (SYSTEM=no skips this) …"
    apt-get update -qq >/dev/null 2>&1
    DEBIAN_FRONTEND=noninteractive apt-get install --yes -qq $missing >/dev/null 2>&1 && exit 0
    echo "that failed"
fi
echo "missing:$missing. What needs them is skipped; to run it: sudo $install"
exit 0
