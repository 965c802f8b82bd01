"""How Sphinx builds this documentation: ``make docs``."""

from flask_jsonrpc_mcp.version import __version__

project = "flask_jsonrpc_mcp"
version = release = __version__

extensions = ["sphinx.ext.autodoc", "myst_parser", "pallets_sphinx_themes"]
exclude_patterns = ["_build"]

# A reference that leads nowhere is a warning, and every warning is an error. What the references of others lead to
# is not here to be looked up, because nothing is fetched to build this.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(flask|flask_httpauth|flask_limiter|blinker|collections|click|werkzeug)\..*")]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
default_role = "code"
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "flask"
html_title = f"flask_jsonrpc_mcp {version}"
html_sidebars = {"**": ["project_links.html", "localtoc.html", "relations.html", "searchbox.html"]}
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_domain_indices = False
version_banner = False
