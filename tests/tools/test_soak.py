"""The runner of `./dev soak`: it counts, it finds what is left behind or hangs, and it says how to have it again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.soak import processes, report, totals
from tests.soak.kinds import all_kinds, hostile_clients, worlds
from tests.soak.run import Plan, Schedule, again, run
from tests.soak.unit import Kind, Unit

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]

# Kinds that do what no kind may; `python -m tests.soak.unit` finds them by this module's name for the list of kinds.
BAD = """
import os, socket, subprocess, sys, time
from pathlib import Path
from tests.soak import kinds, unit
from tests.soak.unit import Kind

def leave_process(it):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

def leave_file(it):
    Path(os.environ["XDG_RUNTIME_DIR"], "left.sock").touch()

def crash(it):
    os.abort()

def fail(it):
    it.finding(f"seed {it.seed} draws {it.random.randrange(1000)}")

def work(it):
    it.count("things", it.seed)

def hang(it):
    time.sleep(600)

def idle(it):
    it.count("things", 0)
    it.count("other things")

everything = (leave_process, leave_file, crash, fail, work, hang, idle)
kinds.all_kinds = lambda: [Kind(f.__name__, "", f, ()) for f in everything]
unit.main(sys.argv[1:])
"""


def kind(name: str, *works: str) -> Kind:
    return Kind(name, "", lambda unit: None, works)


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units run the kinds above."""
    program = tmp_path / "bad.py"
    program.write_text(BAD)
    original = subprocess.Popen

    def popen(command: list[str], **options: object) -> object:
        if "tests.soak.unit" in command:
            at = command.index("-m")
            command = [*command[:at], str(program), *command[at + 2 :]]
            options["env"] = {**os.environ, **options["env"], "PYTHONPATH": str(ROOT)}  # type: ignore[dict-item]
        return original(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(processes.subprocess, "Popen", popen)


def run_one(name: str, seed: int = 7, works: tuple[str, ...] = ()) -> totals.Totals:
    return run_all([kind(name, *works)], Plan(seed, None, 1, 1))


def run_all(kinds: list[Kind], plan: Plan) -> totals.Totals:
    found = totals.Totals("a commit")
    run(kinds, plan, totals.Totals("a commit"), found.merge, lambda _: None)
    return found


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("leave_process", "left behind: process"),
        ("leave_file", "left behind: left.sock in the run-time folder"),
        ("crash", "ended with SIGABRT"),
        ("fail", "seed 7 draws "),
    ],
)
def test_what_a_unit_does_wrong_is_found(bad: None, name: str, says: str) -> None:
    (finding,) = run_one(name).findings
    assert says in finding["text"]
    assert finding["again"] == f"./dev soak --once --only {name} --seed 7 --unit-seconds 1"


def test_a_unit_that_does_no_work_is_found(bad: None) -> None:
    (finding,) = run_one("idle", works=("other things", "things")).findings
    assert finding["text"] == "did no work: it added nothing to 'things'"
    assert run_one("work", works=("things",)).findings == []


def test_every_kind_says_what_its_work_is() -> None:
    for one in all_kinds():
        assert one.works, one.name
    goals = {name for one in all_kinds() for name in one.works if name in totals.GOALS}
    assert goals == set(totals.GOALS)


def test_worlds_that_did_not_run_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that tries none ends well, as gtest does for a filter that no test has."""
    monkeypatch.setattr(worlds, "PROGRAM", Path("/bin/true"))
    unit = Unit(1, 0.01, tmp_path)
    worlds.worlds(unit)
    assert unit.findings[0].startswith("the simulation ended with status 0")
    assert unit.counts["worlds"] == 0


def test_a_server_that_cannot_be_reached_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    unit = Unit(1, 0.01, tmp_path)
    attackers = hostile_clients.Attackers(
        unit, lambda draws: hostile_clients.shm_client(unit, draws, "shm:nobody-is-there")
    )
    attackers.join()
    assert unit.findings
    assert set(unit.findings) == {"a hostile client got FileNotFoundError: [Errno 2] No such file or directory"}


def test_a_unit_goes_on_until_it_has_done_its_work(tmp_path: Path) -> None:
    unit = Unit(1, 0, tmp_path)
    for number, _ in enumerate(unit.rounds("things")):
        unit.count("things", number == 3)
    assert unit.counts["things"] == 1
    assert len(list(unit.rounds("things"))) == 1


def test_a_unit_that_hangs_is_ended_and_shows_where(bad: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 2)
    monkeypatch.setattr("tests.soak.run.LATE_CHECK_SECONDS", 0.2)
    texts = run_one("hang").findings
    assert texts[0]["text"] == "still ran 2 s after its time"
    assert "in hang" in texts[0]["log"]


def test_counts_add_up_over_runs_of_a_commit(bad: None, tmp_path: Path) -> None:
    first = totals.accumulate(run_one("work", 5), tmp_path)
    assert first.count("things") == 5
    assert totals.accumulate(run_one("work", 7), tmp_path).count("things") == 12
    assert totals.load("a commit", tmp_path).kinds["work"]["units"] == 2
    assert totals.load("another", tmp_path).kinds == {}


def test_the_report_says_how_far_it_is_from_each_goal() -> None:
    found = totals.Totals("a commit")
    found.add("kill", 3.0, {"kills": 20_000})
    found.findings.append({"kind": "kill", "text": "what", "again": again(kind("kill"), 3, 2.5), "log": "line"})
    said = report.text(found, found, {"fuzz-x": "not built"})
    assert "20,000 of       20,000  reached" in said
    assert "0 of      100,000  not reached\n" in said
    assert f"1 of {len(totals.GOALS)} goals reached" in said
    assert "again: ./dev soak --once --only kill --seed 3 --unit-seconds 2.5" in said
    assert "left out: not built" in said


def test_kinds_whose_goals_are_reached_get_less_time() -> None:
    before = totals.Totals("a commit")
    before.add("a", 1.0, {"kills": 20_000})
    schedule = Schedule([kind("a", "kills"), kind("b", "worlds")], before)
    chosen = [schedule.next(1).name for _ in range(90)]
    assert 5 <= chosen.count("a") <= 15


def test_time_that_is_over_starts_nothing(bad: None) -> None:
    assert run_all([kind("work")], Plan(1, 0.9, 1, 1)).kinds == {}
    assert run_all([kind("work")], Plan(1, 1.5, 1, 1)).kinds["work"]["units"] >= 1


def test_an_unknown_kind_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--only", "kil"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "no kind kil; there are:\n  kill-clients" in done.stderr
    assert max(map(len, done.stderr.splitlines())) <= 82


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--only", "kil"], 1, "no kind kil"),
        (["--hourz", "1"], 2, "--hourz"),
        (["--seed", "x"], 2, "invalid int"),
        (["--list"], 0, "kill-clients"),
        (["--help"], 0, "--minutes"),
    ],
)
def test_the_command_builds_nothing_for_arguments_that_need_nothing(
    arguments: list[str], status: int, says: str
) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "dev", "soak", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    assert says in done.stdout + done.stderr
    assert "build" not in done.stdout.partition("usage")[0]


def test_a_run_that_is_interrupted_reports_and_leaves_nothing(tmp_path: Path) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.soak", "--minutes", "5", "--only", "kill-clients", "--folder", str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline().startswith("soak of ")
    started.send_signal(signal.SIGTERM)
    out, _ = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "0 findings in this run" in out
    assert json.loads((tmp_path / "report.json").read_text())["run"]["runs"][0]["stopped"]


def worlds_in_pieces(folder: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.soak", "--once", "--only", "worlds", "--unit-seconds", "0.1", *options]
    subprocess.run([*command, "--folder", str(folder)], cwd=ROOT, check=True, capture_output=True)
    return json.loads((folder / "report.json").read_text())


def test_pieces_add_up_and_what_is_repeated_does_not(tmp_path: Path) -> None:
    one = worlds_in_pieces(tmp_path)
    two = worlds_in_pieces(tmp_path)
    worlds_of = [told["run"]["kinds"]["worlds"]["counts"]["worlds"] for told in (one, two)]
    assert two["totals"]["kinds"]["worlds"] == {
        "units": 2,
        "seconds": pytest.approx(sum(told["run"]["kinds"]["worlds"]["seconds"] for told in (one, two))),
        "counts": {"worlds": sum(worlds_of)},
    }
    again = worlds_in_pieces(tmp_path, "--seed", str(two["run"]["runs"][0]["seed"]))
    assert again["run"]["kinds"]["worlds"]["counts"]["worlds"] >= 100
    assert again["totals"] == two["totals"]


def test_a_unit_draws_from_its_seed(tmp_path: Path) -> None:
    draws = {Unit(seed, 1, tmp_path).random.random() for seed in (1, 1, 2)}
    assert len(draws) == 2
