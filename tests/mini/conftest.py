import os

from dojo import ghosts

ghosts.PATIENCE = float(os.environ.get("KATA_PATIENCE", ghosts.PATIENCE))
pytest_plugins = ["dojo.plugin"]

if state := os.environ.get("KATA_CLOCK"):
    from dojo import roofline

    fixed = roofline.Verdict(state, 0.5, 0.8 if state == "pass" else 0.2, 1e-3, 5e-4, 3)
    roofline.judge = lambda *_, **__: fixed
    roofline.machine = lambda: roofline.Machine(1e9, 1e9)
