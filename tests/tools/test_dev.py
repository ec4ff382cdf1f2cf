"""./dev: what it installs and when, how it counts, and that it never reports success for nothing."""

import contextlib
import importlib.machinery
import importlib.util
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, whose tree is an empty folder."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("dev_under_test", str(ROOT / "dev"))
    spec = importlib.util.spec_from_loader("dev_under_test", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    for name, path in {"ROOT": "", "BUILD": "build", "LOGS": "build/logs", "VENV": ".venv"}.items():
        monkeypatch.setattr(module, name, tmp_path / path)
    monkeypatch.setattr(module, "PYTHON", Path(sys.executable))
    return module


def run_dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "dev", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_help_names_every_command(dev: ModuleType) -> None:
    done = run_dev("help")
    assert done.returncode == 0
    for name in dev.COMMANDS:
        assert name in done.stdout
    assert run_dev().stdout == done.stdout


def test_unknown_command_is_an_error() -> None:
    done = run_dev("tset")
    assert done.returncode == 1
    assert "no command 'tset'" in done.stderr
    assert "test" in done.stderr


def test_unknown_kind_of_test_is_an_error() -> None:
    done = run_dev("test", "-k", "fork")
    assert done.returncode == 1
    assert "./dev test python -k" in done.stderr


@pytest.mark.parametrize("command", ["run", "bench", "fuzz"])
def test_what_is_not_there_yet_says_so(dev: ModuleType, command: str) -> None:
    with pytest.raises(dev.DevError, match=r"there yet|no benchmark yet"):
        dev.COMMANDS[command]([])


# ---- Debian packages ------------------------------------------------------------------------------------------------


@pytest.fixture
def system(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    """Puts an imagined system in place and returns the list of the commands that set-up runs in it."""

    def place(
        present: set[str],
        *,
        root: bool = True,
        sudo: bool = True,
        apt_works: bool = True,
        programs: tuple[str, ...] = ("dpkg-query",),
    ) -> list[list[str]]:
        ran: list[list[str]] = []

        def step(_title: str, command: list[str], **_options: Any) -> bool:
            ran.append(command)
            return apt_works

        tools = {"g++", *programs} | ({"sudo"} if sudo else set())
        monkeypatch.setattr(dev, "installed", present.__contains__)
        monkeypatch.setattr(dev, "python_packages", list)
        monkeypatch.setattr(dev.os, "geteuid", lambda: 0 if root else 1000)
        monkeypatch.setattr(dev.shutil, "which", lambda tool: f"/usr/bin/{tool}" if tool in tools else None)
        monkeypatch.setattr(dev, "step", step)
        return ran

    return place


def test_a_system_that_has_all_is_left_alone(dev: ModuleType, system: Callable[..., list[list[str]]]) -> None:
    ran = system(set(dev.DEBIAN_PACKAGES))
    dev.set_up_debian()
    assert ran == []


def test_only_what_is_missing_is_installed(dev: ModuleType, system: Callable[..., list[list[str]]]) -> None:
    ran = system(set(dev.DEBIAN_PACKAGES) - {"ninja-build", "ccache"})
    dev.set_up_debian()
    assert ran[0] == ["apt-get", "update"]
    assert ran[1][:2] == ["apt-get", "install"]
    assert ran[1][-2:] == ["ninja-build", "ccache"]


def test_lint_packages_only_for_lint(dev: ModuleType, system: Callable[..., list[list[str]]]) -> None:
    ran = system(set(dev.DEBIAN_PACKAGES))
    dev.set_up_debian(dev.LINT_PACKAGES)
    assert ran[1][-2:] == dev.LINT_PACKAGES


def test_a_user_installs_through_sudo(dev: ModuleType, system: Callable[..., list[list[str]]]) -> None:
    ran = system(set(), root=False)
    dev.set_up_debian()
    assert all(command[0] == "sudo" for command in ran)


def test_without_sudo_it_says_what_to_run(dev: ModuleType, system: Callable[..., list[list[str]]]) -> None:
    ran = system(set(dev.DEBIAN_PACKAGES) - {"cmake"}, root=False, sudo=False)
    with pytest.raises(dev.DevError, match=r"as root, run:\n  apt-get install .*cmake$"):
        dev.set_up_debian()
    assert ran == []


def test_a_failed_install_says_what_to_run(dev: ModuleType, system: Callable[..., list[list[str]]]) -> None:
    system(set(dev.DEBIAN_PACKAGES) - {"cmake"}, apt_works=False)
    with pytest.raises(dev.DevError, match=r"could not install .*\n  apt-get install .*cmake$"):
        dev.set_up_debian()


def test_another_system_is_told_which_programs_it_lacks(
    dev: ModuleType, system: Callable[..., list[list[str]]]
) -> None:
    ran = system(set(), programs=("cmake", "flatc", "pkg-config", "clang-format"))
    with pytest.raises(dev.DevError, match=r"isn't Debian; install by its own means: ninja run-clang-tidy advzip$"):
        dev.set_up_debian([*dev.LINT_PACKAGES, *dev.WHEEL_PACKAGES])
    system(set(), programs=("cmake", "flatc", "pkg-config", "ninja"))
    dev.set_up_debian()
    assert ran == []


def test_the_program_of_each_package_that_a_command_adds_is_known(dev: ModuleType) -> None:
    added = {*dev.LINT_PACKAGES, *dev.CLANG_PACKAGES, *dev.DOCS_PACKAGES, *dev.WHEEL_PACKAGES}
    assert added <= set(dev.PROGRAMS)


def test_groups_include_each_other(dev: ModuleType) -> None:
    groups = {"a": ["x>=1", {"include-group": "b"}], "b": ["y", "z"]}
    assert list(dev.group(groups, "a")) == ["x>=1", "y", "z"]


# ---- steps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_what_it_has_started(tmp_path: Path, number: signal.Signals) -> None:
    """The script with a step for a command, which starts a process of its own and says which."""
    text = (ROOT / "dev").read_text()
    head, main, tail = text.partition('if __name__ == "__main__":')
    script = tmp_path / "dev"
    started = tmp_path / "started"
    step = f"sleep 600 & echo $! > {started}.part; mv {started}.part {started}; wait"
    script.write_text(f"{head}COMMANDS['slow'] = lambda _: step('slow', ['sh', '-c', {step!r}])\n\n{main}{tail}")
    dev = subprocess.Popen([sys.executable, script, "slow"], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child = os.pidfd_open(int(started.read_text()))  # Not its number, which another process may get.
    try:
        dev.send_signal(number)
        assert dev.wait(timeout=60) == 128 + number
        assert select.select([child], [], [], 60)[0], "it still runs"
    finally:
        os.close(child)


def test_a_failed_step_shows_its_log_and_ends_the_run(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = "print(*range(100), sep='\\n'); raise SystemExit(7)"
    with pytest.raises(dev.DevError, match="try it failed"):
        dev.step("try it", [sys.executable, "-c", code])
    out = capsys.readouterr().out
    assert "    99\n" in out
    assert "    10\n" not in out  # The tail, not the whole.
    assert "ended with status 7" in out
    assert "build/logs/try-it.log" in out
    assert (dev.LOGS / "try-it.log").read_text().splitlines()[-100:] == [str(number) for number in range(100)]


def test_a_program_that_is_not_there_is_named(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(dev.DevError, match="can't run no-such-program: No such file"):
        dev.step("try it", ["no-such-program", "--version"], must_pass=False)
    assert capsys.readouterr().out.endswith("FAILED\n")
    with pytest.raises(dev.DevError, match="can't run no-such-program"), dev.beside("more", ["no-such-program"]):
        pytest.fail("nothing runs beside this")


@pytest.mark.long
def test_a_step_that_hangs_is_ended_with_its_children(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(dev, "STEP_LIMIT_SECONDS", 2)
    # The grandchild holds the fifo's writing end: reading it to its end is waiting for the grandchild's death.
    fifo = tmp_path / "fifo"
    subprocess.run(["mkfifo", fifo], check=True)
    reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE)
    assert not dev.step("hang", ["sh", "-c", f"sh -c 'exec 3>{fifo}; kill -STOP $$' & wait"], must_pass=False)
    assert reader.communicate(timeout=30)[0] == b""
    assert "still ran" in capsys.readouterr().out


# ---- counting -------------------------------------------------------------------------------------------------------

CTEST_REPORT = """<testsuite><testcase name="core.A" classname="core.A" status="run"/>
<testcase name="core.B" classname="core.B" status="fail"><failure message="x"/></testcase>
<testcase name="core.C" classname="core.C" status="disabled"><skipped message="y"/></testcase></testsuite>"""

PYTEST_REPORT = """<testsuites><testsuite><testcase classname="t" name="a"/><testcase classname="t" name="b">
<skipped/></testcase><testcase classname="t" name="c"><error/></testcase></testsuite></testsuites>"""


@pytest.mark.parametrize("report", [CTEST_REPORT, PYTEST_REPORT])
def test_reports_are_counted(dev: ModuleType, tmp_path: Path, report: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.xml").write_text(report)
    tally = dev.Tally()
    tally.add_report("tool", tmp_path / "report.xml", False)
    assert tally.close() == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed, 1 skipped"


def test_success_is_counted_plainly(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    tally = dev.Tally()
    tally.add_check("one", True)
    assert tally.close() == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def test_a_tool_that_fails_without_a_report_is_a_failure(dev: ModuleType, tmp_path: Path) -> None:
    tally = dev.Tally()
    tally.add_check("one", True)
    tally.add_report("tool", tmp_path / "absent.xml", False)
    assert (tally.failed, tally.close()) == (1, 1)


def test_no_test_is_no_success(dev: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.xml").write_text("<testsuites/>")
    tally = dev.Tally()
    tally.add_report("tool", tmp_path / "empty.xml", True)
    assert tally.close() == 1
    assert "no test ran" in capsys.readouterr().out


def test_skipped_tests_alone_are_no_success(dev: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text("<testsuite><testcase name='a'><skipped/></testcase></testsuite>")
    tally = dev.Tally()
    tally.add_report("tool", tmp_path / "report.xml", True)
    assert tally.close() == 1


def test_what_runs_beside_is_waited_for_and_must_pass(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(dev.ROOT / "gate")
    with dev.beside("more packages", ["sh", "-c", "read line < gate"]):
        (dev.ROOT / "gate").write_text("go on\n")  # It runs by now, or this would wait for ever.
    assert "ok" in capsys.readouterr().out
    with (
        pytest.raises(dev.DevError, match="more packages failed"),
        dev.beside("more packages", ["sh", "-c", "echo what it says; exit 3"]),
    ):
        pass
    out = capsys.readouterr().out
    assert "what it says" in out
    assert "more-packages.log" in out


@pytest.mark.parametrize("command", ["exec 3> alive; exec sleep 600", "sh -c 'exec 3> alive; kill -STOP $$' & wait"])
def test_what_runs_beside_ends_with_the_run(dev: ModuleType, command: str) -> None:
    """And what that has started, even if it doesn't heed SIGTERM."""
    os.mkfifo(dev.ROOT / "alive")
    with contextlib.suppress(KeyboardInterrupt), dev.beside("more packages", ["sh", "-c", command]):
        alive = (dev.ROOT / "alive").open()  # Opens once the child has it open.
        raise KeyboardInterrupt
    with alive:
        assert alive.read() == "", "the child has released it"


def test_only_missing_python_packages_are_installed(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def step(_title: str, command: list[str], **_options: Any) -> bool:
        ran.append([str(word) for word in command])
        return True

    monkeypatch.setattr(dev, "step", step)
    monkeypatch.setattr(
        dev,
        "read_project",
        lambda: {
            "build-system": {"requires": ["builder"]},
            "project": {"optional-dependencies": {"cli": ["shell"]}},
            "dependency-groups": {"dev": ["x>=1", {"include-group": "more"}], "more": ["y"], "peers": ["y", "z"]},
        },
    )
    dev.VENV.mkdir()
    dev.set_up_python([])
    dev.set_up_python(["dev", "peers"])
    dev.set_up_python(["peers"])
    options = ["install", "--no-compile"]
    assert [command[command.index(options[0]) :] for command in ran] == [
        [*options, "builder", "shell"],
        [*options, "x>=1", "y", "z"],
    ]


@pytest.mark.parametrize(
    ("command", "groups"),
    [
        *(([name], []) for name in ("asan", "tsan", "clang", "sim", "abi")),
        (["test", "cpp"], []),
        (["test", "python"], ["dev", "peers"]),
        (["test"], ["dev", "peers"]),
    ],
    ids=str,
)
def test_commands_for_cpp_alone_install_no_python_libraries(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, command: list[str], groups: list[str]
) -> None:
    asked: set[str] = set()

    def stop(*_arguments: Any) -> None:
        raise dev.DevError("it would build now")

    monkeypatch.setattr(dev, "set_up_debian", lambda *_: None)
    monkeypatch.setattr(dev, "missing_requirements", asked.update)
    monkeypatch.setattr(dev, "build_cpp", stop)
    monkeypatch.setattr(dev, "build_package", stop)
    with pytest.raises(dev.DevError, match="would build now"):
        dev.COMMANDS[command[0]](command[1:])
    assert sorted(asked) == groups
