"""The Triton kernel of level 07's lab, in the interpreter: it is right, and without Triton it says what to do."""

import importlib.util
import re
import subprocess
import sys

import pytest

from dojo import catalog

PROGRAM = """
import sys
{before}
from dojo import catalog
from dojo.mount import mount
from tests.controls import module_at
for level in ("level00", "level06", "level07"):
    mount(level, catalog.ROOT / "solutions" / level)
lab = module_at(catalog.ROOT / "levels" / "level07" / "labs" / "kernel.py")
lab.main({argv})
"""


def run(argv, before=""):
    program = PROGRAM.format(before=before, argv=argv)
    return subprocess.run(
        [sys.executable, "-c", program], cwd=catalog.ROOT, capture_output=True, text=True, timeout=120
    )


# .ci/run installs Triton, where there is one; a learner who has not asked for it need not have it
@pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="Triton is optional and not installed")
@pytest.mark.parametrize("context, splits", [(100, 3), (64, 1), (5, 8)], ids=str)
def test_the_kernel_gives_what_split_kv_decode_gives(context, splits):
    """Ragged blocks, one split, more splits than keys. In bfloat16 the parts of split_kv_decode are rounded."""
    done = run(["--context", str(context), "--splits", str(splits)])
    assert done.returncode == 0, done.stderr
    found = dict(re.findall(r"torch\.(\w+) +largest difference to your split_kv_decode: (\S+)", done.stdout))
    assert float(found["float32"]) < 1e-5 and float(found["bfloat16"]) < 2e-2


def test_without_triton_it_says_what_to_do():
    done = run([], before="sys.modules['triton'] = None")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("Triton is not installed") and done.stderr.endswith('pip install "triton==3.9.*"\n')
