# Waits until none of some addresses answers any more, and fails where one still does when the time is up.
# gate SECONDS ROUNDS CLASS "HOST PORT"...
seconds=$1 rounds=$2 class=$3
shift 3
trap 'exit 1' TERM # as the first process it would otherwise not hear it

fail() {
  echo "gate of class $class: $*" >&2
  exit 1
}

connects() { # HOST PORT
  nc -z -w 1 "$1" "$2" </dev/null >/dev/null 2>&1
}

# A probe that cannot tell an answer from silence would let everything pass: it has to reach a listener of our own.
prove() {
  port=$((20000 + $(date +%s) % 10000))
  for _ in 1 2 3 4 5 6 7 8; do
    nc -l -s 127.0.0.1 -p "$port" </dev/null >/dev/null 2>&1 &
    listener=$!
    for _ in 1 2 3 4 5; do
      connects 127.0.0.1 "$port" && { kill "$listener"; wait "$listener"; return 0; } 2>/dev/null
      sleep 0.1
    done
    { kill "$listener"; wait "$listener"; } 2>/dev/null
    port=$((port + 1))
  done
  return 1
}

# All at once, so that a round takes no longer than one silence does. Leaves in $answered one that answered.
ask() {
  answered='' asked=''
  for address; do
    connects ${address} &
    asked="$asked $!"
  done
  for address; do
    one=${asked# } one=${one%% *} asked=${asked# "$one"}
    wait "$one" && answered=$address
  done
}

for address; do
  case $address in
    *'$('* | ' '* | *' ') fail "there is no address to ask for in \"$address\": the kubelet named no API server" ;;
  esac
done
[ $# -gt 0 ] || fail 'there is no address to ask for'
prove || fail 'its probe does not reach even a listener of its own, so that no silence means anything; is nc in the image?'

started=$(date +%s) silent=0
while [ "$silent" -lt "$rounds" ]; do
  ask "$@"
  if [ -z "$answered" ]; then
    silent=$((silent + 1))
    [ "$silent" -ge "$rounds" ] || sleep 0.3
    continue
  fi
  silent=0
  [ $(($(date +%s) - started)) -lt "$seconds" ] || fail "$answered was not granted and still answers after $seconds s:" \
    'nothing enforces the NetworkPolicy here. Look at the add-on vpc-cni (enableNetworkPolicy true, enforcing mode' \
    'strict) and at the aws-node pod of this node'
  sleep 0.2
done
echo "gate of class $class: denied after $(($(date +%s) - started)) s"
