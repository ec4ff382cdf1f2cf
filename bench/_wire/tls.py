"""tcp+tls beside a bare pair of SSL_write and SSL_read with the same cipher and socket options."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from bench._children import build_tree, measure, program, said, serving
from bench._places import LOOPBACK
from bench._transfers import bodies, shared_arguments
from bench._turns import Cost
from bench._wire.part import MIB, Part

SIZES = (MIB, 64 * MIB)


def run(part: Part) -> None:
    if shutil.which("openssl") is None:
        part.leave_out("all of it", "the command openssl, which makes the certificate, isn't installed")
        return
    if not (build_tree() / "bench" / "tls_raw").exists():
        part.leave_out("all of it", "the program tls_raw isn't built")
        return
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = _certificate(Path(folder))
        for parts in (1, 8):
            for n in SIZES:
                beside_bare_pair(part, certificate, key, parts, n)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """One that has signed itself, for the loopback."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key)
    facts = ("-days", "1", "-subj", "/CN=bench", "-addext", f"subjectAltName=IP:{LOOPBACK.host}")
    subprocess.run(["openssl", "req", "-x509", *new_key, *facts, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def beside_bare_pair(part: Part, certificate: Path, key: Path, parts: int, n: int) -> None:
    """With 8 parts, of a batch on the heap; with one, of a published table."""
    shared = shared_arguments(n, part.plan.count_of(n)) | {"parts": parts}

    def ours() -> Cost:
        uri = f"tcp+tls://{LOOPBACK.host}:0"
        return bodies(LOOPBACK, uri, shared | {"roots": certificate}, certificate=certificate, key=key)

    def bare() -> Cost:
        server = program("tls_raw", role="serve", host=LOOPBACK.host, certificate=certificate, key=key, **shared)
        with serving([*LOOPBACK.server, *server]) as (ready, child):
            client = program("tls_raw", role="consume", address=ready["address"], **shared)
            run = measure([*LOOPBACK.client, *client])
            return Cost(float(run["per_batch"]), float(run["cpu"]) + float(said(child)["cpu"]))

    what = "message" if parts == 1 else f"message, {parts} parts"
    part.compare(what, LOOPBACK.name, n, "a bare SSL pair", ours, bare, at_least=0.9)
    row = part.comparisons[-1]
    part.must(
        f"{what}, {LOOPBACK.name}, {n // MIB} MiB, processor time of a bare SSL pair",
        row["ours_cpu"] / row["theirs_cpu"], at_most=1.15,
    )  # fmt: skip
