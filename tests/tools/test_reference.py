"""The reference of the Python package is whole: every public name has an entry with a text, and every parameter is
described. The site is made of the same texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import docstrings
import reference

# Names of another package's interface, whose texts are there.
OF_OTHERS = ("crossdock.dask.NannyPlugin.", "crossdock.dask.WorkerPlugin.")


def described() -> Iterator[str]:
    for entry in reference.entries():
        yield entry
        yield from (member for member in reference.members(entry) if not member.startswith(OF_OTHERS))


def test_every_public_name_has_one_entry() -> None:
    entries = reference.entries()
    assert len(entries) == len(set(entries))
    things = [reference.thing_of(entry) for entry in entries]
    missing = [
        name
        for name, thing in reference.public().items()
        if name != "crossdock.__version__" and not any(thing is one for one in things)
    ]
    assert missing == []
    assert len(entries) > 100


def test_every_entry_is_public() -> None:
    public = set(reference.public())
    assert [entry for entry in reference.entries() if entry not in public] == []


def left(entry: str, parameters: list[str], every: set[str]) -> list[str]:
    """The parameters that neither a docstring nor one that it leaves them to describes."""
    text = reference.docstring(entry)
    parameters = docstrings.undescribed(text, parameters)
    near = entry.rpartition(".")[0]
    for other in docstrings.left_to(text) if parameters else ():
        for full in (f"{near}.{other}", f"crossdock.{other}"):
            if full in every - {entry}:
                parameters = left(full, parameters, every - {entry})
    return parameters


def what_lacks(entry: str, every: set[str]) -> list[str]:
    # An option that is also a property has an entry of its own. pytest gives fixtures `request`.
    lacks = left(entry, reference.parameters(entry), every)
    return [name for name in lacks if f"{entry}.{name}" not in every and name != "request"]


def test_every_entry_has_a_text_and_describes_its_parameters() -> None:
    every = set(described())
    assert [entry for entry in sorted(every) if not reference.docstring(entry)] == []
    lacking = {entry: what_lacks(entry, every) for entry in sorted(every)}
    assert {entry: lacks for entry, lacks in lacking.items() if lacks} == {}
    assert len(every) > 300


# Says what is raised, or leaves that to another entry.
ERRORS = re.compile(r"[Rr]aise|Error\b|The same as|[Aa]s `[\w.]+\(\)`")


def test_every_call_says_which_errors_it_raises() -> None:
    calls = [entry for entry in sorted(described()) if reference.signature(entry).startswith("(")]
    assert [entry for entry in calls if not ERRORS.search(reference.docstring(entry))] == []
    assert len(calls) > 100


def test_the_text_of_object_is_no_constructors() -> None:
    own = "Initialize self."
    assert [entry for entry in described() if own in reference.docstring(entry)] == []
    assert reference.docstring("crossdock.Pool").startswith("Shared memory that is used again")


# ---- the form of docstrings ----------------------------------------------------------------------------------------

TEXT = """Gets a thing: `connect()` first, and *all* of it.

    xd.connect(uri)

first, second: what both are,
    in two lines
third: the `Limits`

Raises `Error`.
"""


def test_descriptions_of_parameters_are_found() -> None:
    assert docstrings.undescribed(TEXT, ["first", "second", "third", "uri", "fourth"]) == ["uri", "fourth"]
    assert docstrings.undescribed("Does it. With `x` it is quick, with y=True slow.", ["x", "y", "z"]) == ["z"]
    assert docstrings.left_to("The same as `get()`. wait: as for `Client.list()`.") == ["get", "Client.list"]


def test_a_docstring_becomes_text_with_fields() -> None:
    lines = docstrings.as_rst(TEXT, ["first", "second", "third"], {"connect()": "crossdock.connect"}.get)
    assert lines == [
        r"Gets a thing: :py:obj:`connect() <crossdock.connect>` first, and \*all\* of it.",
        "",
        "::",
        "",
        "    xd.connect(uri)",
        "",
        ":param first:",
        ":param second: what both are,",
        "    in two lines",
        ":param third: the ``Limits``",
        "",
        "Raises ``Error``.",
    ]


def test_a_signature_is_no_text() -> None:
    def function() -> None: ...

    function.__doc__ = "function(x: int) -> str\n\nReturns it."
    assert docstrings.text_of(function) == "Returns it."
    function.__doc__ = "(self) -> str"
    assert docstrings.text_of(function) == ""


def test_signatures_of_names_from_cpp_are_those_of_the_stub() -> None:
    assert reference.signature("crossdock.from_arrow") == "(obj: object, *, bits: bool = False) -> Tensor"
    assert reference.signature("crossdock.offload.current") == "(queue: QueueLike, /) -> Scope"
    assert reference.type_of("crossdock.Tensor.shape") == "tuple[int, ...]"
    assert reference.signature("crossdock.Table") == ""
    assert reference.signature("crossdock.Pool").startswith("(limit: int | None = None, idle: int = 1 << 30")
