"""Archives whose bytes depend on their content alone: fixed time, owner and modes, sorted names."""

import gzip
import io
import tarfile
import zipfile

# Seconds since 1970 of each file's time: 1985-10-26, as in packages that npm makes itself. Zip files begin in 1980.
FILE_TIME = 499_162_500
ZIP_TIME = (1985, 10, 26, 8, 15, 0)
PROGRAM_MODE = 0o755
TEXT_MODE = 0o644


def write_tar(path, entries, level):
    """Writes `(name, mode, bytes)` entries as a gzipped tar file, and returns its path."""
    with open(path, "wb") as file, gzip.GzipFile("", "wb", level, file, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, mode, content in sorted(entries):
                entry = tarfile.TarInfo(name)
                entry.mode, entry.size, entry.mtime = mode, len(content), FILE_TIME
                tar.addfile(entry, io.BytesIO(content))
    return path


def write_zip(path, entries, level):
    """Writes `(name, mode, bytes)` entries as a zip file, in their order, and returns its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, mode, content in entries:
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # The system is Unix, whatever the system that packs: modes count there alone. 0o100000 is a regular file.
            entry.create_system, entry.external_attr = 3, (0o100000 | mode) << 16
            archive.writestr(entry, content)
    return path


def write_archive(out, binary, documents, about):
    """Writes `vmcp-VERSION-PLATFORM.tar.gz`: the programs of the folder, and the documents."""
    programs = [binary.path.with_name(name) for name in ("vmcp", "vmcp-operator")]
    entries = [(path.name, PROGRAM_MODE, path.read_bytes()) for path in programs if path.is_file()]
    entries += [(path.name, TEXT_MODE, path.read_bytes()) for path in documents]
    return write_tar(out / f"vmcp-{about['version']}-{binary.platform}.tar.gz", entries, about["level"])
