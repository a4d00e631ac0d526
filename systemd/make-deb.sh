#!/bin/sh
# Builds dist/headgate_<version>_<architecture>.deb: the wheels of Headgate and of all it needs, and install.sh, which
# puts them into place when the package is configured. Nothing is fetched on the device. The wheels are those of the
# Python that builds it, so build where the devices' Python is. It needs that Python with its venv module, and dpkg-deb;
# with strip (binutils) the package becomes half as large. COMPRESSION=none builds faster.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
python=${PYTHON:-python3}
output=${1:-dist}

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../pyproject.toml")
minor=$("$python" -c 'import sys; print(sys.version_info.minor)')
architecture=$(dpkg --print-architecture)
package=$output/headgate_${version}_$architecture.deb

tree=$(mktemp -d)
builder=$(mktemp -d)
trap 'rm -rf "$tree" "$builder"' EXIT
library=$tree/usr/lib/headgate
mkdir -p "$library" "$tree/DEBIAN" "$output"
chmod 0755 "$tree"

"$python" -m venv "$builder"
"$builder/bin/pip" wheel --quiet --disable-pip-version-check --wheel-dir "$library/wheels" "$here/..[node,collector]"
"$builder/bin/python" "$here/slim_wheels.py" "$library"/wheels/*.whl
for file in "$here"/*.service "$here"/*.conf "$here"/*.rules; do install -m 0644 "$file" "$library"; done
install -m 0755 "$here/install.sh" "$library"

cat >"$tree/DEBIAN/control" <<CONTROL
Package: headgate
Version: $version
Architecture: $architecture
Maintainer: The Headgate maintainers <maintainers@headgate.invalid>
Depends: python3 (>= 3.$minor), python3 (<< 3.$((minor + 1))), python3-venv, systemd
Section: net
Priority: optional
Description: edge gateway agent: signed sensor messages, from the device to the lake
 Reads sensors, keeps every reading as a signed message in a durable journal, publishes it and ships signed archives.
CONTROL

cat >"$tree/DEBIAN/postinst" <<'POSTINST'
#!/bin/sh
set -e
if [ "$1" = configure ]; then PYTHON=/usr/bin/python3 /usr/lib/headgate/install.sh --wheels /usr/lib/headgate/wheels; fi
POSTINST
cat >"$tree/DEBIAN/prerm" <<'PRERM'
#!/bin/sh
set -e
if [ "$1" = remove ]; then /usr/lib/headgate/install.sh --uninstall; fi
PRERM
cat >"$tree/DEBIAN/postrm" <<'POSTRM'
#!/bin/sh
set -e
if [ "$1" = purge ]; then rm -rf /var/lib/headgate /etc/headgate /etc/sysusers.d/headgate.conf; fi
POSTRM
chmod 0755 "$tree/DEBIAN/postinst" "$tree/DEBIAN/prerm" "$tree/DEBIAN/postrm"

dpkg-deb --root-owner-group "-Z${COMPRESSION:-xz}" --build "$tree" "$package"
