#!/bin/sh
# install_configuration.sh FILE FOLDER: what `meson install` runs to make FOLDER/uroce.toml. One that is there already may be the
# administrator's, and is kept; what is new in ours is in share/uroce.
set -eu
target=${DESTDIR:-}$2/${1##*/}
if [ -e "$target" ] || [ -L "$target" ]; then
  echo "Keeping $target"
else
  install -D -m 644 "$1" "$target"
fi
