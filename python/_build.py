"""Build backend without dependencies: `pip install` needs no network and no setuptools.

A wheel is a zip of the files of the package, metadata from pyproject.toml, and a list of both (PEP 427). pip calls
build_wheel and build_sdist (PEP 517).
"""

import base64
import hashlib
import io
import pathlib
import re
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent


def _project():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    def value(key):
        return re.search(rf'^{key} = "(.*)"$', text, re.MULTILINE).group(1)

    needs = re.search(r"^dependencies = \[(.*?)\]", text, re.MULTILINE | re.DOTALL).group(1)
    return {
        "name": value("name"),
        "version": value("version"),
        "summary": value("description"),
        "python": value("requires-python"),
        "needs": re.findall(r'"(.*?)"', needs),
    }


def _metadata(p):
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {p['name']}",
        f"Version: {p['version']}",
        f"Summary: {p['summary']}",
        f"Requires-Python: {p['python']}",
        *(f"Requires-Dist: {need}" for need in p["needs"]),
        "Description-Content-Type: text/markdown",
        "",
        (ROOT / "README.md").read_text(encoding="utf-8"),
    ]
    return "\n".join(lines)


def _sources():
    # In the repository the modules are where Go programs embed them, in a source distribution next to this file.
    for folder in (ROOT / "millstream", ROOT.parent / "internal" / "dask" / "python" / "millstream"):
        if folder.is_dir():
            return sorted(folder.glob("*.py"))
    raise FileNotFoundError(f"no modules in {ROOT / 'millstream'}: build in a clone of the repository or a source distribution")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    p = _project()
    info = f"{p['name']}-{p['version']}.dist-info"
    files = {f"millstream/{f.name}": f.read_bytes() for f in _sources()}
    files[f"{info}/METADATA"] = _metadata(p).encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: millstream\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = f"{info}/RECORD"
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    wheel = f"{p['name']}-{p['version']}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in files.items():
            z.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    p = _project()
    base = f"{p['name']}-{p['version']}"
    with tarfile.open(pathlib.Path(sdist_directory) / f"{base}.tar.gz", "w:gz") as t:
        for f in [ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "_build.py"]:
            t.add(f, f"{base}/{f.name}")
        for f in _sources():
            t.add(f, f"{base}/millstream/{f.name}")
        data = _metadata(p).encode()
        entry = tarfile.TarInfo(f"{base}/PKG-INFO")
        entry.size = len(data)
        t.addfile(entry, io.BytesIO(data))
    return f"{base}.tar.gz"
