#!/usr/bin/env bash
# Makes packages of a release build: `package.sh KIND...` with tarball, wheel, npm, deb, image or all.
#   QUARRY   the binary to package (the release build of the target directory)
#   DIST     where the packages go (`dist` in the target directory)
#   DEB_COMPRESSION  how the Debian package is compressed (xz, which every release of Debian reads and which takes its time)
#   PACKAGE_VERSION  another version than the workspace's, for a trial of an upgrade
# Nothing is compiled, downloaded or published but for `image`, which takes libraries from Debian's packages. Each kind is the
# stripped binary and files of packaging/; scripts/package_test.sh tries them in places that have nothing else.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
: "${CARGO_TARGET_DIR:=$HOME/.cache/quarry/target}"
: "${QUARRY:=$CARGO_TARGET_DIR/release/quarry}"
: "${DIST:=$CARGO_TARGET_DIR/dist}"
version=${PACKAGE_VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)}
# One moment for all files, so that the same build gives the same packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
machine=$(uname -m)
stage=$(mktemp -d)
trap 'rm -rf -- "$stage"' EXIT

die() {
    printf 'package: %s\n' "$*" >&2
    exit 1
}

say() { printf '    %s\n' "$*"; }

[[ -x $QUARRY ]] || die "no binary at $QUARRY: run make build, or set QUARRY"
mkdir -p "$DIST"

# The binary without its symbols, once.
binary=$stage/quarry
strip -o "$binary" "$QUARRY"
chmod 755 "$binary"

# The newest version of a library's symbols that the binary asks for: `newest GLIBC`.
newest() {
    objdump -T "$binary" | grep -oE "\(?$1_[0-9.]+" | grep -oE '[0-9.]+$' | sort -V | tail -n 1
}
glibc=$(newest GLIBC)
[[ -n $glibc ]] || die "the binary names no version of glibc"

# Man pages and completions are written by the program itself, from its own flags.
manuals() {
    mkdir -p "$1"
    "$binary" man "$1"
    gzip -9n "$1"/*.1
}

completions() {
    local prefix=$1
    install -d "$prefix/bash-completion/completions" "$prefix/zsh/vendor-completions" "$prefix/fish/vendor_completions.d"
    "$binary" completions bash >"$prefix/bash-completion/completions/quarry"
    "$binary" completions zsh >"$prefix/zsh/vendor-completions/_quarry"
    "$binary" completions fish >"$prefix/fish/vendor_completions.d/quarry.fish"
}

fill() { sed -e "s/@VERSION@/$version/g" "$@"; }

make_tarball() {
    local name=quarry-$version-linux-$machine
    local tree=$stage/$name
    install -d "$tree/bin" "$tree/share/man"
    install -m 755 "$binary" "$tree/bin/quarry"
    ln -s quarry "$tree/bin/mongod"
    install -m 644 "$root/LICENSE" "$root/README.md" "$root/CHANGELOG.md" "$tree/"
    install -m 644 "$root"/packaging/system/quarry.{conf,service,logrotate} "$tree/share/"
    manuals "$tree/share/man/man1"
    completions "$tree/share"
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$stage" -czf "$DIST/$name.tar.gz" "$name"
    say "$DIST/$name.tar.gz"
}

make_wheel() {
    local tag=py3-none-manylinux_${glibc//./_}_$machine tree=$stage/wheel
    local info=$tree/quarry_server-$version.dist-info scripts=$tree/quarry_server-$version.data/scripts
    install -d "$tree/quarry_server" "$info" "$scripts"
    install -m 644 "$root"/packaging/python/quarry_server/*.py "$tree/quarry_server/"
    install -m 755 "$binary" "$scripts/quarry"
    fill "$root/packaging/python/METADATA.in" | cat - "$root/packaging/python/README.md" >"$info/METADATA"
    install -m 644 "$root/packaging/python/entry_points.txt" "$root/LICENSE" "$info/"
    printf 'Wheel-Version: 1.0\nGenerator: package.sh\nRoot-Is-Purelib: false\nTag: %s\n' "$tag" >"$info/WHEEL"
    python3 "$root/scripts/pack_wheel.py" "$tree" "$DIST/quarry_server-$version-$tag.whl"
    say "$DIST/quarry_server-$version-$tag.whl"
}

make_npm() {
    local tree=$stage/npm cpu
    case $machine in
        x86_64) cpu=x64 ;;
        aarch64) cpu=arm64 ;;
        *) die "npm has no name for $machine" ;;
    esac
    install -d "$tree/bin"
    install -m 755 "$binary" "$tree/bin/quarry"
    install -m 755 "$root/packaging/npm/cli.js" "$tree/"
    install -m 644 "$root"/packaging/npm/{index.js,index.d.ts,README.md} "$root/LICENSE" "$tree/"
    fill -e "s/@CPU@/$cpu/" "$root/packaging/npm/package.json.in" >"$tree/package.json"
    (cd "$tree" && npm pack --silent --pack-destination "$DIST" >/dev/null)
    say "$DIST/quarry-server-$version.tgz"
}

# What the package needs: libraries that the binary asks for, by the packages that have them in Debian and Ubuntu.
dependencies() {
    local needed="libc6 (>= $glibc)"
    if objdump -p "$binary" | grep -q 'NEEDED.*libgcc_s'; then needed+=", libgcc-s1"; fi
    if objdump -p "$binary" | grep -q 'NEEDED.*libstdc++'; then
        # Its symbols are versioned by GLIBCXX_3.4.N; libstdc++6 11 has 3.4.29, which glibc 2.34 and newer come with.
        needed+=", libstdc++6 (>= 11)"
    fi
    echo "$needed"
}

make_deb() {
    local architecture tree=$stage/deb
    architecture=$(dpkg --print-architecture)
    install -d "$tree/DEBIAN" "$tree/usr/bin" "$tree/lib/systemd/system" "$tree/etc/logrotate.d" \
        "$tree/usr/share/doc/quarry-server" "$tree/usr/share/man"
    install -m 755 "$binary" "$tree/usr/bin/quarry"
    install -m 644 "$root/packaging/system/quarry.service" "$tree/lib/systemd/system/quarry.service"
    install -m 644 "$root/packaging/system/quarry.conf" "$tree/etc/quarry.conf"
    install -m 644 "$root/packaging/system/quarry.logrotate" "$tree/etc/logrotate.d/quarry"
    install -m 644 "$root/LICENSE" "$tree/usr/share/doc/quarry-server/copyright"
    gzip -9nc "$root/CHANGELOG.md" >"$tree/usr/share/doc/quarry-server/changelog.gz"
    manuals "$tree/usr/share/man/man1"
    completions "$tree/usr/share"
    fill -e "s/@ARCHITECTURE@/$architecture/" -e "s/@INSTALLED_KIB@/$(du -sk "$tree" | cut -f 1)/" \
        -e "s/@DEPENDS@/$(dependencies)/" "$root/packaging/debian/control.in" >"$tree/DEBIAN/control"
    install -m 755 "$root"/packaging/debian/{postinst,prerm,postrm} "$tree/DEBIAN/"
    install -m 644 "$root/packaging/debian/conffiles" "$tree/DEBIAN/"
    dpkg-deb --root-owner-group "-Z${DEB_COMPRESSION:-xz}" --build "$tree" "$DIST/quarry-server_${version}_$architecture.deb" >/dev/null
    say "$DIST/quarry-server_${version}_$architecture.deb"
}

# The files of Debian packages that the binary needs to run, and nothing else: no shell, no package manager.
image_libraries() {
    local tree=$1 download=$stage/libraries package
    mkdir -p "$download"
    for package in libc6 libgcc-s1 libstdc++6; do
        (cd "$download" && apt-get download -q "$package" >/dev/null 2>&1) || die "apt-get download $package failed: run apt-get update"
    done
    for package in "$download"/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$tree" --exclude './usr/share/*' --exclude './usr/lib/*/gconv/*'
    done
}

make_image() {
    command -v umoci >/dev/null || die "umoci is missing: scripts/bootstrap.sh package"
    local layout=$DIST/quarry-$version-oci architecture bundle=$stage/bundle
    architecture=$(dpkg --print-architecture)
    rm -rf -- "$layout"
    umoci init --layout "$layout"
    umoci new --image "$layout:$version"
    local rootless=()
    ((EUID == 0)) || rootless=(--rootless)
    umoci unpack "${rootless[@]}" --image "$layout:$version" "$bundle" 2>/dev/null
    local tree=$bundle/rootfs
    image_libraries "$tree"
    install -d "$tree/usr/bin" "$tree/etc" "$tree/data"
    install -m 755 "$binary" "$tree/usr/bin/quarry"
    ln -s quarry "$tree/usr/bin/mongod"
    printf 'root:x:0:0:root:/root:/sbin/nologin\nquarry:x:999:999:Quarry:/data:/sbin/nologin\n' >"$tree/etc/passwd"
    printf 'root:x:0:\nquarry:x:999:\n' >"$tree/etc/group"
    install -d -m 1777 "$tree/tmp"
    # Owned by the user within, as a volume that is mounted over it is at its first use.
    install -d -m 750 "$tree/data/db"
    ((EUID != 0)) || chown 999:999 "$tree/data/db"
    umoci repack "${rootless[@]}" --image "$layout:$version" "$bundle" 2>/dev/null
    umoci config --image "$layout:$version" --architecture "$architecture" --os linux --config.user 999:999 \
        --config.entrypoint /usr/bin/quarry --config.entrypoint serve --config.entrypoint --dbpath --config.entrypoint /data/db \
        --config.entrypoint --bind_ip --config.entrypoint 0.0.0.0 \
        --config.volume /data/db --config.exposedports 27017/tcp --config.exposedports 28017/tcp \
        --config.env PATH=/usr/bin --config.stopsignal SIGTERM
    umoci gc --layout "$layout"
    say "$layout"
}

(($# > 0)) || die "usage: package.sh tarball|wheel|npm|deb|image|all ..."
for kind in "$@"; do
    case $kind in
        tarball | wheel | npm | deb | image) "make_$kind" ;;
        all) for each in tarball wheel npm deb image; do "make_$each"; done ;;
        *) die "unknown kind of package $kind" ;;
    esac
done
