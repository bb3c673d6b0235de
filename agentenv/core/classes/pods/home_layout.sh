# Brings the folder of a home into its layout: the files in current/, with next/ and state/ beside it.
# home FOLDER
#
# A home in the old layout has its files in FOLDER itself. They are moved one by one into a folder beside them, which is
# renamed to current/ when nothing is left. Each step is one rename, and the folders say which were done: a run that
# was killed is continued by the next one. What is in state/home-layout says that the move is over.
set -eu
umask 077
cd "$1"
moving=.home-moving marking=.home-marking mark=state/home-layout

fail() {
  echo "home: $*" >&2
  exit 1
}

exists() {
  [ -e "$1" ] || [ -L "$1" ]
}

# Moves what is not of the layout into a folder; what has a namesake there stays where it is.
gather() { # INTO
  for entry in * .[!.]* ..?*; do
    case $entry in
      "$moving" | "$marking") continue ;;
      current | next | state) [ ! -e "$mark" ] || continue ;;
    esac
    exists "$entry" || continue
    if exists "$1/$entry"; then
      echo "home: $entry is in $1 already, and stays beside it" >&2
      continue
    fi
    mv -- "$entry" "$1/"
  done
}

if [ ! -e "$mark" ]; then
  mkdir -p "$moving"
  gather "$moving"
  mkdir -p "$marking"
  echo 1 >"$marking/home-layout"
  exists state && fail 'state is in the way of the layout'
  mv -- "$marking" state
fi
if [ -e "$moving" ]; then
  exists current && { rmdir current || fail 'current is in the way of the files of this home'; }
  mv -- "$moving" current
fi
mkdir -p current next
# A release with the old layout may have run since.
gather current
