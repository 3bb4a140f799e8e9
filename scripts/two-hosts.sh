#!/usr/bin/env bash
# Two hosts on one machine: `fesc serve` and `fesc classify` in two network namespaces, joined by a virtual cable, on the
# profile WAN3 (100 Mbit/s, 80 ms there and back). The label must be the twin's; bytes and rounds must be the declared ones.
#
#   sudo scripts/two-hosts.sh [FESC]         FESC: the program; built with `cargo build --release` unless given
#   TEXT=FILE LENGTH=L                       the document and how many of its tokens are looked at
#   NET=none|lan|wan1|wan2|wan3              the profile, if the program is to imitate it; see below
#
# Needs root, and of Debian: apt-get install iproute2 jq. Not run in CI.
#
# Who shapes: the kernel, if it has netem (module sch_netem): then rate and delay are on the cable and hold for every
# byte, TLS and TCP included. Else the program (`--net`), which delays frames on the sending side.
# Leaves nothing behind: namespaces, processes and files of a run are removed at its end, however it ends.
set -euo pipefail

die() { echo "two-hosts: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "needs root, to make network namespaces"
for tool in ip tc jq; do
    command -v "$tool" >/dev/null || die "$tool is missing: apt-get install iproute2 jq"
done

root=$(cd "$(dirname "$0")/.." && pwd)
text=${TEXT:-$root/crates/fesc/samples/search-of-a-car.txt}
length=${LENGTH:-100}
if [ $# -ge 1 ]; then
    fesc=$(realpath "$1")
else
    (cd "$root" && cargo build --release --quiet -p fesc)
    fesc=${CARGO_TARGET_DIR:-$root/target}/release/fesc
fi

here=fesc-client-$$ there=fesc-server-$$
place=$(mktemp -d)
server=
clean() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    ip netns del "$here" 2>/dev/null || true
    ip netns del "$there" 2>/dev/null || true
    rm -rf "$place"
}
trap clean EXIT

# The cable. Addresses of the range for documentation (RFC 5737): nobody else has them.
ip netns add "$here"
ip netns add "$there"
ip link add "c$$" netns "$here" type veth peer name "s$$" netns "$there"
ip -n "$here" addr add 192.0.2.1/30 dev "c$$"
ip -n "$there" addr add 192.0.2.2/30 dev "s$$"
ip -n "$here" link set "c$$" up
ip -n "$there" link set "s$$" up

net=${NET:-}
if [ -z "$net" ] &&
    ip netns exec "$here" tc qdisc add dev "c$$" root netem rate 100mbit delay 40ms limit 100000 2>/dev/null &&
    ip netns exec "$there" tc qdisc add dev "s$$" root netem rate 100mbit delay 40ms limit 100000 2>/dev/null; then
    shaped="the kernel (netem), 100 Mbit/s and 80 ms"
    net=none
else
    net=${net:-wan3}
    shaped="the program (--net $net)"
fi

mkfifo "$place/out"
ip netns exec "$there" "$fesc" serve --json --state "$place/state" --listen 192.0.2.2:7340 --net "$net" >"$place/out" &
server=$!
# The server prints one line when it listens. The pipe stays open: it may print more.
exec 3<"$place/out"
read -r -t 120 listening <&3 || die "the server did not start"
pin=$(jq -r .fingerprint <<<"$listening")

run=$(ip netns exec "$here" "$fesc" classify "$text" --length "$length" --json --net "$net" \
    --server 192.0.2.2:7340 --pin "$pin" --cache "$place/cache")
twin=$("$fesc" classify "$text" --length "$length" --json --plain --twin | jq .label)
bucket=$(jq .bucket <<<"$run")
declared=$("$fesc" estimate --length "$bucket" --no-time --json | head -n 1)

field() { jq "$2" <<<"$1"; }
failed=0
compare() { # what, measured, declared, good (jq expression of $m and $d)
    local verdict=ok
    jq -en --argjson m "$2" --argjson d "$3" "$4" >/dev/null || { verdict=DIFFERS; failed=1; }
    printf '%-16s %14s   declared %14s   %s\n' "$1" "$2" "$3" "$verdict"
}

echo "two namespaces, shaped by $shaped; $(field "$run" .tokens) tokens in a run of $bucket"
compare label "$(field "$run" .label)" "$twin" '$m == $d'
compare online_bytes "$(field "$run" .online_bytes)" "$(field "$declared" .online_bytes)" '$m == $d'
compare rounds "$(field "$run" .rounds)" "$(field "$declared" .rounds)" '$m == $d'
# Silent transfers come in batches, so their bytes are estimated, not counted.
compare offline_bytes "$(field "$run" .offline_bytes)" "$(field "$declared" .offline_bytes)" '($m - $d | fabs) <= 0.02 * $d'
jq -r '"online \(.online_s) s, offline \(.offline_s) s beside it, setup \(.setup_s) s and \(.setup_bytes) bytes, \(.seconds) s in all"' <<<"$run"
exit "$failed"
