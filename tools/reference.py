"""What the reference of the Python package has to hold, and how it describes each name. Without Sphinx:
tests/tools/test_reference.py uses it, too.

Texts are the docstrings of the imported module, which help() shows. Signatures are those of the source: of Python's
files, and for names from C++ those of the stub, _native.pyi. nanobind's own say `object` for every protocol, and types
of CPython's C API have none. tests/python/test_typing.py holds the stub to the module.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docstrings import text_of

from crossdock import _native

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "crossdock"
PAGES = ROOT / "docs" / "reference" / "api"
BLOCK = re.compile(r"^```\{python-entries\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Classes of which only the package makes objects: their constructors are no entries.
MADE_BY_THE_PACKAGE = frozenset(
    f"crossdock.{name}"
    for name in (
        "AsyncRecordBatchReader FileReader Table checking.Finding checking.Report metrics.Metrics peers.Listener "
        "peers.Message peers.Peer ray.Stream testing.SimulatedDevices"
    ).split()
)


def modules() -> list[str]:
    """The public modules of the package: those without an underscore. The command is documented by its help."""
    names = {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return ["crossdock", *(f"crossdock.{name}" for name in sorted(names) if not name.startswith("_") and name != "cli")]


def public() -> dict[str, Any]:
    """The public names, each with its full name as it is reached first: `crossdock.Queue`, and not again in a module.

    Of a module without `__all__`, such as a plug-in of pytest, the fixtures are public.
    """
    found: dict[str, Any] = {}
    for module in modules():
        loaded = importlib.import_module(module)
        names = getattr(loaded, "__all__", None)
        if names is None:
            names = [name for name, thing in vars(loaded).items() if "FixtureFunction" in type(thing).__name__]
        for name in names:
            thing = getattr(loaded, name)
            if not inspect.ismodule(thing):
                found[f"{module}.{name}"] = thing
    return found


def entries() -> list[str]:
    """The full names that the pages of the reference have an entry for."""
    return [
        name
        for page in sorted(PAGES.glob("*.md"))
        for block in BLOCK.findall(page.read_text())
        for name in block.split()
    ]


@functools.cache
def thing_of(entry: str) -> Any:
    """The object of a full name, as it lies in its class."""
    parts = entry.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            thing = inspect.getattr_static(thing, part) if isinstance(thing, type) else getattr(thing, part)
        return thing.__func__ if isinstance(thing, (staticmethod, classmethod)) else thing
    raise ModuleNotFoundError(entry)


@functools.cache
def _definitions(path: Path) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.AnnAssign]:
    """The functions, classes and annotated names of a file, by their qualified names; of overloads the last."""
    found: dict[str, Any] = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node, behind in zip(body, [*body[1:], None], strict=True):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                found[prefix + node.name] = node
            if isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[prefix + node.target.id] = node
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name) and node.value is not None:
                found[f"{prefix}{target.id}.="] = node.value
            if isinstance(target, ast.Name) and isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
                found[f"{prefix}{target.id}.__doc__"] = inspect.cleandoc(str(behind.value.value))

    collect(ast.parse(path.read_text()).body, "")
    return found


def _file(module: str) -> Path:
    plain = PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
    return plain if plain.exists() else plain.with_suffix("") / "__init__.py"


def _source(entry: str) -> tuple[Path, str] | None:
    """The file that defines what an entry names, and its qualified name there."""
    owner, _, name = entry.rpartition(".")
    thing = thing_of(entry)
    if isinstance(thing_of(owner), type):
        for base in thing_of(owner).__mro__:
            if name in vars(base):
                place = _of_object(base)
                return None if place is None else (place[0], f"{place[1]}.{name}")
    return _of_object(thing) or _imported(_file(owner), name)


def _imported(path: Path, name: str) -> tuple[Path, str]:
    """The file that defines a name of a module: another one, if the module imports it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            return _imported(_file(node.module), name)
    return path, name


def _of_object(thing: Any) -> tuple[Path, str] | None:
    stub = PACKAGE / "_native.pyi"
    bound_to = type(getattr(thing, "__self__", None))  # offload.current is a method of a Package
    if getattr(_native, bound_to.__name__, None) is bound_to:
        return stub, f"{bound_to.__name__}.{thing.__name__}"
    name = getattr(thing, "__name__", "")
    if name and getattr(_native, name, None) is thing:
        return stub, name
    thing = inspect.unwrap(thing)
    module = getattr(thing, "__module__", None) or ""
    if module.startswith("crossdock") and hasattr(thing, "__qualname__"):
        return _file(module), thing.__qualname__
    return None


def _node(entry: str) -> Any:
    place = _source(entry)
    return None if place is None else _definitions(place[0]).get(place[1])


def callable_of(entry: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The definition of a function, of a method, or of a class's constructor; None of everything else."""
    node = _node(entry)
    if isinstance(node, ast.ClassDef):
        path, name = _source(entry) or (PACKAGE, "")
        if entry in MADE_BY_THE_PACKAGE:
            return None
        found = _definitions(path)
        node = found.get(f"{name}.__init__") or found.get(f"{name}.__new__")
    is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return node if is_function and not _decorated(node, "property") else None


def _decorated(node: Any, *names: str) -> bool:
    return any(ast.unparse(one) in names for one in node.decorator_list)


def parameters(entry: str) -> list[str]:
    """The names of the parameters of a function, a method or a class's constructor; none for everything else."""
    node = callable_of(entry)
    if node is None:
        return []
    of = node.args
    every = [*of.posonlyargs, *of.args, of.vararg, *of.kwonlyargs, of.kwarg]
    return [one.arg for one in every if one is not None and one.arg not in ("self", "cls")]


def signature(entry: str) -> str:
    """The parameters and the type of the result, as the source has them, without the name of the native module."""
    node = callable_of(entry)
    if node is None:
        return ""
    copy = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(copy, (ast.FunctionDef, ast.AsyncFunctionDef))
    first = copy.args.posonlyargs or copy.args.args
    if first and first[0].arg in ("self", "cls"):
        del first[0]
    result = "" if copy.returns is None or copy.name in ("__init__", "__new__") else f" -> {ast.unparse(copy.returns)}"
    return (re.sub(r"(?<=[\w\])'])=", " = ", f"({ast.unparse(copy.args)})") + result).replace("_native.", "")


def value_of(entry: str) -> str | None:
    """The value of a name that stands for a type, as the source has it."""
    place = _source(entry)
    node = None if place is None else _definitions(place[0]).get(f"{place[1]}.=")
    return None if node is None else ast.unparse(node)


def type_of(entry: str) -> str | None:
    """The type of a property, an attribute or a name, as the source has it."""
    node = _node(entry)
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.annotation)
    if isinstance(node, ast.FunctionDef) and _decorated(node, "property") and node.returns is not None:
        return ast.unparse(node.returns)
    return None


def docstring(entry: str) -> str:
    """The text of an entry: its docstring, or the text behind it in the source; of a class its constructor's, too."""
    place = _source(entry)
    found = {} if place is None else _definitions(place[0])
    behind = found.get(f"{place[1]}.__doc__") if place else None
    if isinstance(behind, str):
        return behind
    thing = thing_of(entry)
    if kind_of(entry) == "data":
        return ""
    if not isinstance(thing, type):
        text = text_of(thing)
        return "" if text.startswith("Alias for field number") else text  # a named tuple's own words
    constructor = vars(thing).get("__init__") if callable_of(entry) is not None else None
    text = "" if constructor is None else text_of(constructor)
    # inspect.getdoc() gives a constructor without a docstring the one of object.
    return "\n\n".join(filter(None, [text_of(thing), "" if text == text_of(object.__init__) else text]))


def members(entry: str) -> Iterator[str]:
    """Yields the full names of the public members of a class, of private bases too, in the order of the source."""
    kind = thing_of(entry)
    if not isinstance(kind, type) or issubclass(kind, BaseException) or is_alias(entry):
        return
    seen = set()
    for base in kind.__mro__:
        if base is not kind and not (base.__module__.startswith("crossdock.") and base.__name__.startswith("_")):
            continue
        for name in (*getattr(base, "__annotations__", {}), *vars(base)):
            if not name.startswith("_") and name not in seen and hasattr(kind, name):
                seen.add(name)
                yield f"{entry}.{name}"


def is_alias(entry: str) -> bool:
    """Whether an entry is another name of a class: `serve` is `Server`."""
    thing = thing_of(entry)
    return isinstance(thing, type) and thing.__name__ != entry.rpartition(".")[2] and thing.__name__ != "PeerFrame"


def kind_of(entry: str) -> str:
    """The directive of Sphinx's Python domain for an entry."""
    thing, owner = thing_of(entry), thing_of(entry.rpartition(".")[0])
    if isinstance(thing, type):
        return "exception" if issubclass(thing, BaseException) else "class"
    if isinstance(owner, type):
        return "method" if callable_of(entry) else "property" if type_of(entry) else "attribute"
    return "function" if callable_of(entry) else "data"
