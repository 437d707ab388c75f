"""The given world of processes, on real gloo: the same values as threads and as torch's own collectives, and one
sentence when a rank fails. After a failure, and at the end, no process is left.

Each start costs seconds: what goes right shares one pool, and what goes wrong is the last thing that its pool does.
"""

import ast
import importlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import cloudpickle
import pytest
import torch

from dojo import catalog
from dojo.mount import VARIABLE, mount, mount_all, plan, unmount
from dojo.progress import Progress

pytestmark = pytest.mark.timeout(180)
SECONDS = 1.5  # that a rank waits for another, where one never comes


@pytest.fixture(scope="module")
def world():
    """level09.processes, with the solutions mounted here and in what it starts."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the ranks need not find the tests
    before, table = os.environ.get(VARIABLE), plan([], "solutions", Progress())
    mount_all(table)
    yield importlib.import_module("level09.processes")
    for level in table:
        unmount(level)
    os.environ.pop(VARIABLE) if before is None else os.environ.update({VARIABLE: before})
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def pool(world):
    with world.Ranks(3, seconds=60) as ranks:
        yield ranks
        ranks.run(number)
        processes = ranks.processes
    assert ended(processes)


def number(comm):
    return comm.rank


def ended(processes):
    """Nobody is left: not a process, and not a thread that listens to one."""
    end = time.monotonic() + 5
    while any("_listen" in thread.name for thread in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.01)
    return processes and all(process.poll() is not None for process in processes)


def fails(ranks, error, fn, *args):
    """The sentence with which a pool that works refuses fn; all its processes have ended then."""
    assert ranks.run(number) == list(range(ranks.size))
    processes = ranks.processes
    with pytest.raises(error) as refused:
        ranks.run(fn, *args)
    assert ranks.processes == [] and ended(processes)
    return str(refused.value)


# ---- what goes right, in one pool


def test_results_come_by_rank_and_all_have_the_same_arguments(pool):
    assert pool.run(lambda comm, x, y: (comm.rank, comm.size, x, y), "a", 2) == [(r, 3, "a", 2) for r in range(3)]
    shards = pool.run("level09.collectives.ring_all_gather", torch.ones(2))
    assert [shard.tolist() for shard in shards] == [[1.0] * 6] * 3


def test_no_rank_no_pool(world):
    with pytest.raises(ValueError, match="at least one rank, not 0"):
        world.Ranks(0)


def messages(comm):
    """Views, nothing at all, several in a row, another shape, to oneself, to and from different ranks."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    seen = [comm.sendrecv(torch.arange(6).view(2, 3).T + comm.rank, right, left).tolist()]
    seen.append(comm.sendrecv(torch.full((comm.rank,), comm.rank), right, left, (left,)).tolist())
    seen.append(comm.sendrecv(torch.ones(2, dtype=torch.bfloat16), comm.rank, comm.rank).tolist())
    for step in range(3):
        if comm.rank == 0:
            comm.send(torch.tensor([step]), 1)
        if comm.rank == 1:
            seen.append(comm.recv((1,), torch.int64, 0).tolist())
    return seen, comm.messages, comm.bytes_sent


def collectives(comm):
    """The katas: what they give, and what they have sent."""
    from level09.collectives import all_to_all, ring_all_reduce, ring_reduce_scatter

    draw = torch.Generator().manual_seed(comm.rank)
    x = torch.randn(4 * comm.size, 3, generator=draw)
    chunks = [torch.arange(j * comm.rank) for j in range(comm.size)]
    seen = ring_reduce_scatter(comm, x), ring_all_reduce(comm, x[1:]), ring_all_reduce(comm, x[:0])
    return [t.tolist() for t in (*seen, *all_to_all(comm, chunks))], comm.messages, comm.bytes_sent


@pytest.mark.parametrize("program", [messages, collectives])
def test_the_same_values_as_threads_and_the_same_counts(world, pool, program):
    run_threads = importlib.import_module("level09.threads").run_threads
    assert pool.run(program) == run_threads(program, 3)


def beside_torch(comm):
    """[what torch.distributed gives is what the katas give]"""
    import torch.distributed as dist

    from level09.collectives import all_to_all, ring_all_gather, ring_all_reduce, ring_reduce_scatter

    draw = torch.Generator().manual_seed(comm.rank)
    x = torch.randint(-50, 50, (2 * comm.size, 5), generator=draw).double()
    total, scattered, gathered = x.clone(), torch.empty(2, 5).double(), torch.empty(2 * comm.size**2, 5).double()
    dist.all_reduce(total)
    dist.reduce_scatter_tensor(scattered, x)
    dist.all_gather_into_tensor(gathered, x)
    swapped = torch.empty_like(x)
    dist.all_to_all_single(swapped, x)
    pairs = [
        (total, ring_all_reduce(comm, x)),
        (scattered, ring_reduce_scatter(comm, x)),
        (gathered, ring_all_gather(comm, x)),
        (swapped, torch.cat(all_to_all(comm, x.split(2)))),
    ]
    return [torch.equal(right, mine) for right, mine in pairs]


def test_torchs_own_collectives_give_the_same(pool):
    assert pool.run(beside_torch) == [[True] * 4] * 3


def prints(comm):
    print("a rank may print", flush=True)
    return os.getpid()


def test_a_rank_may_print_and_ranks_stay(pool):
    """What it prints is no answer; the next order goes to the same processes."""
    first = pool.run(prints)
    assert pool.run(prints) == first and len({*first, os.getpid()}) == 4


# ---- what goes wrong


def test_a_rank_that_raises_and_a_pool_that_goes_on(world):
    """The one that raised is named, and the line, not those that lost it; the next run starts other processes."""

    def program(comm):
        from level09.collectives import ring_reduce_scatter

        if comm.rank == 1:
            ring_reduce_scatter(comm, torch.ones(5))
        comm.recv((1,), torch.float32, 1)

    with world.Ranks(2, seconds=30) as ranks:
        said = fails(ranks, world.RankError, program)
        assert re.fullmatch(r"rank 1 raised ValueError: .* pad it \(collectives.py, line \d+\)", said), said
        assert ranks.run(number) == [0, 1]
        processes = ranks.processes
    assert ended(processes)


def test_a_rank_that_exits(world):
    def program(comm):
        if comm.rank == 1:
            os._exit(3)
        comm.recv((1,), torch.float32, 1)

    with world.Ranks(2, seconds=30) as ranks:
        assert fails(ranks, world.RankError, program) == "rank 1 ended with exit code 3"


def test_a_rank_that_hangs(world):
    """Named is the one that is silent, and what the other one says of it."""

    def program(comm):
        if comm.rank == 1:
            time.sleep(100)
        comm.recv((1,), torch.float32, 1)

    with world.Ranks(2, seconds=SECONDS) as ranks:
        said = fails(ranks, world.RankError, program)
    late = "rank 0 waits for a message from rank 1, more than 1.5 s"
    assert said == f"rank 1 gave no answer in time, and was stopped, {late}"


def test_everybody_sends_first(world):
    """Eight bytes are enough: gloo, too, waits until somebody receives."""

    def program(comm):
        comm.send(torch.ones(1).double(), 1 - comm.rank)
        return comm.recv((1,), torch.float64, 1 - comm.rank)

    with world.Ranks(2, seconds=SECONDS) as ranks:
        said = fails(ranks, world.RankError, program)
    assert "waits for rank 1 to receive, more than 1.5 s" in said or "waits for rank 0 to receive, more than" in said


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no way to press Ctrl-C from here")
def test_an_interrupt_leaves_no_process(world):
    """Ctrl-C, or the timeout of a test: heard at once, while ranks work for ever."""

    def program(comm):
        while True:
            pass

    with world.Ranks(2, seconds=100) as ranks:
        assert ranks.run(number) == [0, 1]
        processes = ranks.processes
        threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            ranks.run(program)
        assert ranks.processes == [] and ended(processes)


def test_a_stub_says_so_and_another_folder_is_noticed(world):
    """What is mounted here is what the ranks run; and when it is another folder later, they are not believed."""
    before = os.environ[VARIABLE]
    learners = catalog.ROOT / "levels" / "level09"
    mount_all({**plan([], "solutions", Progress()), "level09": learners})
    stubs = importlib.import_module("level09.processes").Ranks(2, seconds=30)
    try:
        said = fails(stubs, NotImplementedError, "level09.collectives.ring_all_gather", torch.ones(2))
        assert said == "level09.collectives.ring_all_reduce"
        assert stubs.run(number) == [0, 1]
        processes = stubs.processes
        mount("level09", catalog.ROOT / "solutions" / "level09")
        with pytest.raises(Exception, match="rank 0 ran .*level09 is mounted from .*solutions.level09") as refused:
            stubs.run(number)
        assert type(refused.value).__name__ == "RankError" and stubs.processes == [] and ended(processes)
    finally:
        stubs.close()
        mount("level09", catalog.ROOT / "solutions" / "level09")
        os.environ[VARIABLE] = before


def test_torchruns_ranks_are_taken_where_there_are_some(world, monkeypatch):
    assert isinstance(world.ranks(3), world.Ranks)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(world, "Launched", lambda device: SimpleNamespace(size=2, device=device))
    assert world.ranks(2, "cuda").device == "cuda"
    with pytest.raises(ValueError, match="torchrun has started 2 ranks: give it --nproc-per-node 3"):
        world.ranks(3)


LAUNCHED = """
import os
import sys
from pathlib import Path

from dojo.mount import mount_from_environment
mount_from_environment()
from level09.processes import ranks
from tests.test_level09_processes import collectives

with ranks(2) as world:
    results = world.run(collectives)
Path(sys.argv[1], os.environ["RANK"]).write_text(repr(results), encoding="utf-8")
"""


@pytest.mark.skipif(os.name == "nt", reason="torchrun wants libuv there")
def test_torchrun_starts_the_same_program(world, tmp_path):
    """Every rank has the results of all, and they are those of two threads."""
    script = tmp_path / "script.py"
    script.write_text(LAUNCHED, encoding="utf-8")
    arguments = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script), str(tmp_path)]
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    environment = {"PYTHONPATH": str(catalog.ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": loopback}
    environment = os.environ | environment
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    right = importlib.import_module("level09.threads").run_threads(collectives, 2)
    answers = [ast.literal_eval((tmp_path / rank).read_text(encoding="utf-8")) for rank in "01"]
    assert answers == [right] * 2
