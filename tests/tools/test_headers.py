"""Every public name of the headers has a text, and the check of that fails where it should. The site's build does the
same check, and shows what is found here.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import headers
import pytest

pytestmark = pytest.mark.skipif(shutil.which("doxygen") is None, reason="doxygen isn't installed: ./dev docs brings it")

SAID = """/// A namespace.
namespace n {

/// A class. `width()` is what specializations have.
template <class T>
class Box {
 public:
  /// Makes one.
  explicit Box(T t);
  Box(const Box& other);
  Box(Box&& other) noexcept;
  Box& operator=(const Box&) = delete;
  ~Box();
  bool operator==(const Box&) const = default;
  /// An enumeration.
  enum class Kind {
    kOne,  ///< The first.
    kTwo,  ///< The second.
  };
  int field = 0;  ///< A field.
  /// A type in it.
  struct Inner {
    int deep = 0;  ///< A field.
  };

 protected:
  /// A method.
  void method() const;

 private:
  struct Hidden {
    int a;
  };
  int hidden_ = 0;
};

/// The same for int.
template <>
class Box<int> {
 public:
  Box(int i);
  static int width();
  void method() const;
};

/// An iterator.
class Iterator {
 public:
  using iterator_concept = void;
  /// Reads it.
  int operator*() const;
  Iterator& operator++();
};

using Alias = Box<int>;
/// A function.
void function(int i);
inline constexpr int kPlain = 1;  ///< A constant.

}  // namespace n
"""
PLAIN_C = """/** A struct. */
typedef struct s {
  int size; /**< its bytes */
} s;
#define S_MOST 4
/** A function. */
int s_make(s* made);
"""


def lacking(folder: Path, cpp: str = SAID, c: str = PLAIN_C) -> list[str]:
    include = folder / "include"
    include.mkdir()
    (include / "n.h").write_text(cpp)
    (include / "s.h").write_text(c)
    (include / "other_abi.h").write_text("struct Theirs {\n  int field;\n};\n")
    faults = headers.Headers(include, folder / "xml").lacking()
    return [re.sub(r":\d+: (.*) has no comment that says what it is", r": \1", fault) for fault in faults]


def test_these_headers_say_what_each_name_is(tmp_path: Path) -> None:
    found = headers.Headers(xml_folder=tmp_path / "xml")
    assert found.lacking() == []
    assert len(list(found.declared())) > 400
    assert len(list(found.members())) > 1000


def test_what_is_said_passes(tmp_path: Path) -> None:
    assert lacking(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("  /// Makes one.\n", "n.h: n::Box::Box(T t)"),
        ("  /// An enumeration.\n", "n.h: n::Box::Kind"),
        ("  ///< The second.", "n.h: n::Box::Kind::kTwo"),
        ("  ///< A field.\n  /// A type", "n.h: n::Box::field"),
        ("  /// A type in it.\n", "n.h: n::Box::Inner"),
        ("  /// A method.\n", "n.h: n::Box::method() const"),
        (" `width()` is what specializations have.", "n.h: n::Box< int >::width()"),
        ("  /// Reads it.\n", "n.h: n::Iterator::operator*() const"),
        ("/// An iterator.\n", "n.h: n::Iterator"),
        ("/// A function.\n", "n.h: n::function(int i)"),
        ("  ///< A constant.", "n.h: n::kPlain"),
    ],
)
def test_a_name_without_a_text_is_found(tmp_path: Path, text: str, name: str) -> None:
    kept = "\n  /// A type" if text.endswith("  /// A type") else ""
    assert SAID.count(text) == 1
    assert name in lacking(tmp_path, SAID.replace(text, kept))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/** A struct. */\n", "s.h: s"),
        (" /**< its bytes */", "s.h: s::size"),
        ("/** A function. */\n", "s.h: s_make(s *made)"),
    ],
)
def test_a_name_of_c_without_a_text_is_found(tmp_path: Path, text: str, name: str) -> None:
    assert lacking(tmp_path, c=PLAIN_C.replace(text, "")) == [name]


def test_a_comment_that_doxygen_does_not_read_is_none(tmp_path: Path) -> None:
    assert lacking(tmp_path, c=PLAIN_C.replace("/** A f", "/* A f")) == ["s.h: s_make(s *made)"]


def test_what_doxygen_cannot_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(headers.HeadersError, match=r"n\.h:1: error: .*nowhere"):
        lacking(tmp_path, SAID.replace("/// A namespace.", "/// A namespace. \\copydoc nowhere"))
