"""Screens: what a command prints in a miniature project. Those of a test file are made two at a time, ahead of it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from dojo.mount import one_thread
from tests.miniature import Miniature, Screen

collect_ignore = ["mini"]


def pytest_configure(config):
    one_thread()  # before any test imports torch: two cores that wait for each other slow everything down
    config.addinivalue_line("markers", "screen(setup, *args, **how): the miniature project, and what to run in it")


def perform(root, setup, *args, **how) -> Screen:
    project = Miniature(root)
    setup(project)
    return project.run(*args, **how)


@pytest.fixture(scope="module")
def _screens(request, tmp_path_factory):
    with ThreadPoolExecutor(2) as pool:
        waiting = {}
        for item in request.session.items:
            if item.path == request.path and (mark := item.get_closest_marker("screen")):
                root = tmp_path_factory.mktemp("with space")
                waiting[item.nodeid] = pool.submit(perform, root, *mark.args, **mark.kwargs)
        yield waiting
        pool.shutdown(cancel_futures=True)


@pytest.fixture
def screen(request, _screens) -> Screen:
    """What the test's `screen` mark asks for."""
    return _screens[request.node.nodeid].result()


@pytest.fixture
def project(tmp_path_factory) -> Miniature:
    """A miniature project of its own, unfilled."""
    return Miniature(tmp_path_factory.mktemp("with space"))
