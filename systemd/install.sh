#!/bin/sh
# Installs, upgrades or removes Headgate on a machine with systemd.
#
#   /opt/headgate/versions/<id>    one virtual environment each, owned by root: the services cannot change their own code
#   /opt/headgate/current          link to the one in use; a switch is one rename
#   /usr/local/bin/headgate        link to its command
#
# An upgrade builds a new environment beside the old one, lets the new version check the configuration, switches and
# restarts. If any of that fails, the old version stays or comes back, and the answer is not 0.
set -eu

role=agent
action=install
source=
wheels=
root=
source_folder=
python=${PYTHON:-python3}
purge=no
start=no
services="headgate headgate-collector headgate-node"

usage() {
    cat <<'USAGE'
usage: install.sh [--role agent|node|collector] [--from PATH] [--wheels DIR] [--start] [--root DIR]
       install.sh --uninstall [--purge] [--role agent|node|collector] [--root DIR]

  --role ROLE    the service to install; run the script once for each role (default: agent)
  --from PATH    a checkout or a wheel (default: the checkout that this script is in)
  --wheels DIR   install only from the wheels in DIR, and download nothing
  --start        enable and start the service; without it, a running service is restarted and no other is started
  --uninstall    remove programs and units; data, keys and configuration stay
  --purge        with --uninstall: remove data, keys, configuration and user too
  --root DIR     install into the image of a system below DIR, with the Python of the image; the running system is
                 not changed; with --start the service starts when the image boots
USAGE
}

say() { printf '%s\n' "$*"; }

die() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --role | --from | --wheels | --root)
                [ $# -ge 2 ] || die "$1 requires a value"
                case $1 in
                    --role) role=$2 ;;
                    --from) source=$2 ;;
                    --wheels) wheels=$2 ;;
                    --root) root=${2%/} ;;
                esac
                shift
                ;;
            --start) start=yes ;;
            --uninstall) action=uninstall ;;
            --purge) purge=yes ;;
            --help | -h)
                usage
                exit 0
                ;;
            *) die "unknown option $1; --help lists them" ;;
        esac
        shift
    done
    [ "$purge" = no ] || [ "$action" = uninstall ] || die "--purge goes with --uninstall"
}

# What belongs to a role: its service, its user, and where it keeps data.
choose_role() {
    case $role in
        agent) service=headgate user=headgate ;;
        collector) service=headgate-collector user=headgate-collector ;;
        node) service=headgate-node user= ;;
        *) die "no role $role; there are agent, node and collector" ;;
    esac
    here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
    home=/opt/headgate
    prefix=$root$home
    etc=$root/etc
    command=$root/usr/local/bin/headgate
    state=$root/var/lib/$service
    configuration=$etc/headgate/headgate.toml
}

is_live() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

check_machine() {
    [ "$(id -u)" -eq 0 ] || die "it must be run by root"
    for tool in systemd-sysusers systemd-tmpfiles; do
        command -v "$tool" >/dev/null || die "$tool is missing; Headgate's services need systemd"
    done
}

# --- inside an image ----------------------------------------------------------------------------------------------

# Runs a command in the system below --root, at the paths that it will have when that boots; without --root, here. What
# it needs from outside is mounted below the image's /tmp, in a mount namespace that ends with the command.
inside() {
    if [ -z "$root" ]; then
        "$@"
        return
    fi
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --propagation=private sh -c '
        set -e
        root=$1 source=$2 wheels=$3
        shift 3
        mkdir -p "$root/dev" "$root/proc" "$root/tmp"
        mount --rbind /dev "$root/dev"
        mount -t proc proc "$root/proc"
        mount -t tmpfs tmpfs "$root/tmp"
        mkdir -p "$root/tmp/source" "$root/tmp/wheels"
        mount --bind "$source" "$root/tmp/source"
        if [ -n "$wheels" ]; then mount --bind "$wheels" "$root/tmp/wheels"; fi
        if [ -f "$root/etc/resolv.conf" ]; then mount --bind /etc/resolv.conf "$root/etc/resolv.conf" || true; fi
        chroot=$(command -v chroot)
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root exec "$chroot" "$root" "$@"
    ' sh "$root" "$source_folder" "$wheels" "$@"
}

# An image that is copied to many devices has no identity: each makes its own when it first boots.
check_image() {
    [ -n "$root" ] || return 0
    root=$(CDPATH='' cd -- "$root" && pwd) || die "there is no folder $root"
    prefix=$root$home
    [ ! -e "$root/var/lib/headgate/keys/device.keys" ] ||
        die "$root has the keys of a device: all copies would be the same device; remove $root/var/lib/headgate first"
    inside true || die "no program of $root can be run here; an image of another architecture needs qemu-user-static"
    if [ -s "$root/etc/machine-id" ] && [ "$(cat "$root/etc/machine-id")" != uninitialized ]; then
        say "note: $root/etc/machine-id is set, and copies of the image share it; empty it: : > $root/etc/machine-id"
    fi
}

# --- a new version ------------------------------------------------------------------------------------------------

check_python() {
    inside "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        die "$python is missing${root:+ in $root} or older than 3.11; set PYTHON to a newer one"
    inside "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        die "$python has no venv module${root:+ in $root}; apt install python3-venv"
}

find_source() {
    if [ -z "$source" ] && [ -n "$wheels" ]; then
        for candidate in "$wheels"/headgate-*.whl; do source=$candidate; done
    fi
    if [ -z "$source" ]; then source=$(dirname -- "$here"); fi
    case $source in
        *.whl) [ -f "$source" ] || die "$source: no such wheel" ;;
        *) [ -f "$source/pyproject.toml" ] || die "$source: neither a wheel nor a checkout; name one with --from" ;;
    esac
    if [ -z "$root" ]; then return; fi
    case $source in
        *.whl) source_folder=$(dirname -- "$source") source=/tmp/source/$(basename -- "$source") ;;
        *) source_folder=$source source=/tmp/source ;;
    esac
    source_folder=$(CDPATH='' cd -- "$source_folder" && pwd)
    if [ -n "$wheels" ]; then wheels=$(CDPATH='' cd -- "$wheels" && pwd); fi
}

build_version() {
    id=$(date -u +%Y%m%dT%H%M%SZ)-$$
    new=$prefix/versions/$id
    environment=$home/versions/$id
    mkdir -p "$prefix/versions"
    trap 'rm -rf "$new"' EXIT
    trap 'exit 1' INT TERM
    say "building $new"
    inside "$python" -m venv "$environment"
    if [ -n "$wheels" ]; then
        if [ -n "$root" ]; then set -- --no-index --find-links /tmp/wheels; else set -- --no-index --find-links "$wheels"; fi
    else
        set -- --prefer-binary
    fi
    inside "$environment/bin/pip" install --quiet --disable-pip-version-check --no-input --root-user-action=ignore \
        "$@" "${source}[node,collector]" || die "the packages could not be installed; nothing was changed"
    inside "$environment/bin/headgate" --version >/dev/null || die "the new version does not run; nothing was changed"
    mkdir -p "$new/share/headgate"
    cp "$here"/*.service "$here"/*.conf "$here"/*.rules "$new/share/headgate/"
}

# The configuration is judged by the new version before that is let near the data.
check_configuration() {
    if [ -z "$root" ] && [ -f "$configuration" ]; then
        "$new/bin/headgate" check --config "$configuration" >/dev/null ||
            die "the new version does not accept the configuration; nothing was changed"
    fi
}

link_atomically() {
    mkdir -p "$(dirname -- "$2")"
    ln -sfn "$1" "$2.new"
    mv -T "$2.new" "$2"
}

switch_to() {
    link_atomically "versions/$1" "$prefix/current"
    trap - EXIT
}

previous_version() {
    if [ -L "$prefix/current" ]; then basename -- "$(readlink -- "$prefix/current")"; fi
}

# The one before is kept, for going back by hand.
remove_older_versions() {
    for version in "$prefix"/versions/*; do
        case ${version##*/} in
            "$id" | "$previous") ;;
            *) rm -rf "$version" ;;
        esac
    done
}

# --- the system around it -----------------------------------------------------------------------------------------

# Units, users, folders and rules of this role, from the version that they belong to.
install_files() {
    files=$1/share/headgate
    place "$files/$service.service" "$etc/systemd/system/$service.service"
    if [ -f "$files/$service.sysusers.conf" ]; then
        place "$files/$service.sysusers.conf" "$etc/sysusers.d/$service.conf"
        systemd-sysusers --root="$root/" "$etc/sysusers.d/$service.conf"
    fi
    if [ "$role" = agent ]; then
        place "$files/70-headgate.rules" "$etc/udev/rules.d/70-headgate.rules"
        place "$files/headgate-firstboot.service" "$etc/systemd/system/headgate-firstboot.service"
    fi
    if [ -f "$files/$service.tmpfiles.conf" ]; then
        place "$files/$service.tmpfiles.conf" "$etc/tmpfiles.d/$service.conf"
        systemd-tmpfiles --create --root="$root/" "$etc/tmpfiles.d/$service.conf"
    fi
    mkdir -p "$etc/headgate"
    if [ "$role" = node ] && [ ! -f "$etc/headgate/node.toml" ]; then
        say "# Every setting has a default; docs/node.md lists them." >"$etc/headgate/node.toml"
    fi
    link_atomically /opt/headgate/current/bin/headgate "$command"
}

place() {
    mkdir -p "$(dirname -- "$2")"
    install -m 0644 "$1" "$2"
}

# A first configuration and keys, and what the service may touch. Neither is ever replaced by init. In an image,
# headgate-firstboot.service does it on each device.
prepare_agent() {
    if [ "$role" != agent ]; then return; fi
    if [ -z "$root" ] && [ ! -f "$configuration" ]; then
        "$home/current/bin/headgate" init --non-interactive --config "$configuration"
    fi
    if [ ! -f "$configuration" ]; then return; fi
    inside "$home/current/bin/headgate" systemd --config /etc/headgate/headgate.toml \
        --write /etc/systemd/system/headgate.service.d/headgate.conf 2>/dev/null ||
        say "the configuration and the service do not fit together yet; 'headgate systemd --write' tells why"
}

# All roles share one version, so all that run are restarted.
start_services() {
    if [ -n "$root" ] && [ "$start" = yes ]; then systemctl --quiet --root="$root" enable "$service"; fi
    if ! is_live; then return; fi
    systemctl daemon-reload
    if command -v udevadm >/dev/null; then udevadm control --reload 2>/dev/null || true; fi
    if [ "$start" = yes ]; then systemctl enable --quiet "$service"; fi
    for each in $services; do
        if [ "$start $each" = "yes $service" ] || systemctl is-active --quiet "$each"; then
            systemctl restart "$each" || go_back "$each"
        fi
    done
}

go_back() {
    if [ -z "$previous" ]; then die "$1 does not start; journalctl -u $1 tells why"; fi
    switch_to "$previous"
    install_files "$prefix/versions/$previous"
    systemctl daemon-reload
    for each in $services; do
        if [ "$each" = "$1" ] || systemctl is-active --quiet "$each"; then systemctl restart "$each" || true; fi
    done
    rm -rf "$new"
    die "$1 does not start with the new version; the previous version is restored (see journalctl -u $1)"
}

install_or_upgrade() {
    find_source
    check_machine
    check_image
    check_python
    previous=$(previous_version)
    build_version
    check_configuration
    install_files "$new"
    switch_to "$id"
    prepare_agent
    start_services
    remove_older_versions
    say "$(inside "$home/current/bin/headgate" --version) is installed as $role"
    if [ "$role" = agent ] && [ "$start" = no ] && [ -z "$root" ]; then
        say "next: edit $configuration, headgate check, headgate systemd --write, systemctl enable --now headgate"
    fi
    if [ "$role" = collector ] && [ -d "$state/keys" ]; then
        say "public keys of the collector, for the configuration of devices:"
        "$home/current/bin/headgate" collector keys show --state "$state"
    fi
}

# --- and away again -----------------------------------------------------------------------------------------------

uninstall() {
    check_machine
    if is_live && [ -f "$etc/systemd/system/$service.service" ]; then
        systemctl disable --quiet --now "$service" || die "$service does not stop; nothing was removed"
    fi
    rm -f "$etc/systemd/system/$service.service" "$etc/tmpfiles.d/$service.conf"
    if [ "$role" = agent ]; then
        rm -f "$etc/systemd/system/headgate.service.d/headgate.conf" "$etc/udev/rules.d/70-headgate.rules"
        rm -f "$etc/systemd/system/headgate-firstboot.service"
        rmdir "$etc/systemd/system/headgate.service.d" 2>/dev/null || true
    fi
    if [ "$purge" = yes ]; then purge_role; fi
    if ! others_remain; then
        rm -rf "$prefix"
        rm -f "$command"
        if [ "$purge" = yes ]; then rm -rf "$etc/headgate"; fi
    fi
    if is_live; then systemctl daemon-reload; fi
    say "$role is removed"
    if [ "$purge" = no ]; then say "kept: $state and $etc/headgate; --purge removes them too"; fi
}

others_remain() {
    for other in $services; do
        if [ -f "$etc/systemd/system/$other.service" ]; then return 0; fi
    done
    return 1
}

purge_role() {
    rm -rf "$state" "$root/var/lib/private/$service"
    rm -f "$etc/sysusers.d/$service.conf"
    if [ -n "$user" ] && [ -z "$root" ] && id "$user" >/dev/null 2>&1; then userdel "$user"; fi
    case $role in
        agent) rm -f "$configuration" ;;
        collector) rm -f "$etc/headgate/collector.env" ;;
        node) rm -f "$etc/headgate/node.toml" ;;
    esac
}

parse_arguments "$@"
choose_role
case $action in
    install) install_or_upgrade ;;
    uninstall) uninstall ;;
esac
