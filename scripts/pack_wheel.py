"""Packs a directory as a wheel: `pack_wheel.py TREE WHEEL`. A wheel is a zip file whose RECORD names every file with its digest
(https://packaging.python.org/en/latest/specifications/binary-distribution-format/)."""

import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile

MODE_FILE = 0o100644
MODE_PROGRAM = 0o100755


def main(tree, wheel):
    tree = pathlib.Path(tree)
    (info,) = tree.glob("*.dist-info")
    # Zip has no time before 1980.
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name, content, mode):
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)

        # The specification asks for the dist-info directory last.
        files = sorted((path for path in tree.rglob("*") if path.is_file()), key=lambda path: (info in path.parents, path))
        for path in files:
            name = path.relative_to(tree).as_posix()
            content = path.read_bytes()
            add(name, content, MODE_PROGRAM if os.access(path, os.X_OK) else MODE_FILE)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
        name = f"{info.name}/RECORD"
        add(name, "\n".join([*record, f"{name},,", ""]), MODE_FILE)


if __name__ == "__main__":
    main(*sys.argv[1:])
