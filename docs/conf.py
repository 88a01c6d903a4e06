"""How Sphinx builds the documentation.

``python -m sphinx -n -W -b html docs docs/_build/html`` needs no network, and stops at
anything that a page or docstring refers to and that is not there.
"""

import os
import sys
from pathlib import Path

from skparisk._version import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "skparisk"
author = "the skparisk developers"
copyright = author
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",  # MathJax from a package, and not from the network
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "mended_html",
]
exclude_patterns = ["_build", "gallery"]
default_role = "literal"  # `epsilon` is a name in code

autosummary_generate = False  # api_pages writes the pages
autodoc_typehints = "none"  # the Parameters sections have the types, in words
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

# Copied code has no prompts and no output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

# Names of other packages: the inventories list those that pages use, in the first
# version of the format, which is text. A build needs no network.
SITES = {"numpy": "numpy.org/doc", "sklearn": "scikit-learn.org"}
intersphinx_mapping = {
    name: (f"https://{site}/stable/", f"inventories/{name}.txt")
    for name, site in SITES.items()
}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",
    "copyfile_regex": "",
    "within_subsection_order": "FileNameSortKey",
    "image_srcset": ["2x"],
    "doc_module": "skparisk",
    "backreferences_dir": "examples/of",
    "reference_url": {"skparisk": None},
    "abort_on_example_error": True,
    "inspect_global_variables": False,
    "show_memory": False,
    "write_computation_times": False,
    "capture_repr": (),
}

html_theme = "pydata_sphinx_theme"
html_title = f"skparisk {release}"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_context = {"default_mode": "auto"}  # light or dark, as the system is
# "Edit this page" leads to the repository, owner/name, where the forge names one.
owner, _, repository = os.environ.get("GITHUB_REPOSITORY", "").partition("/")
html_context |= {"github_user": owner, "github_repo": repository}
html_context |= {"github_version": "main", "doc_path": "docs"}
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "navigation_depth": 3,
    "collapse_navigation": True,
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],
    "show_toc_level": 2,
    "footer_start": [],
    "footer_end": ["sphinx-version"],
    "use_edit_page_button": bool(repository),
    "secondary_sidebar_items": {
        "*": ["page-toc", "edit-this-page"],
        "theory/*": ["page-toc", "edit-this-page"],
        "api/*": ["page-toc"],  # written by a build, as are examples
        "examples/*": ["page-toc"],
    },
    # The list is read where the site is served; files on a disk show no switcher.
    "switcher": {"json_url": "_static/versions.json", "version_match": "0.1"},
    "navbar_end": ["version-switcher", "theme-switcher"],
}
# Pages with no pages below or beside them have no use for a sidebar.
_ALONE = ("index", "getting_started")
html_sidebars: dict[str, list[str]] = {page: [] for page in _ALONE}
