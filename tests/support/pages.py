"""The pages of trainer/report/page.html in tests: what they are given, and what their script draws of it."""
import json
import os
import re
import shutil
import subprocess

HAS_NODE = shutil.which("node") is not None


def content(page):
    """The JSON of a page's text."""
    return json.loads(re.search('<script type="application/json" id="page">(.*?)</script>', page, re.DOTALL)[1])


def nodes(node, tag):
    """All nodes of a kind ("pre", "table") in another, in order."""
    if isinstance(node, dict):
        return [found for value in node.values() for found in nodes(value, tag)]
    if not isinstance(node, list):
        return []
    return ([node] if node and node[0] == tag else []) + [found for part in node for found in nodes(part, tag)]


def drawn(path, answers=None):
    """The <main> that the scripts of a page's file make, as HTML, and its title; see drawn_page.js. Raises an error of a script."""
    command = ["node", os.path.join(os.path.dirname(os.path.abspath(__file__)), "drawn_page.js"), path]
    result = subprocess.run(command + ([answers] if answers else []), capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    return found["main"], found["title"]
