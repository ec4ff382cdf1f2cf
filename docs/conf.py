"""How Sphinx makes the site of these pages: `./dev docs`.

The pages are Markdown that reads well without it, too. The extensions in _ext/ add what Markdown hasn't: the tree of
pages, the reference, notebooks.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "tools")]

project = "Crossdock"
copyright = "the Crossdock authors. Apache License 2.0"
extensions = [
    "myst_parser",
    "contents",
    "pictures",
    "notebook_pages",
    "command_reference",
    "python_reference",
    "cpp_reference",
]
exclude_patterns = ["_ext"]

myst_heading_anchors = 4  # by GitHub's rule, so that links to headings work there and here

html_theme = "furo"
html_title = "Crossdock"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
python_maximum_signature_line_length = 100
python_display_short_literal_types = True
maximum_signature_line_length = 100
