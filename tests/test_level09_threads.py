"""The given world of threads: who waits for whom, what arrives, and that nothing is left behind, whatever happens."""

import _thread
import importlib
import re
import sys
import threading

import pytest
import torch

from tests.controls import solutions_of

FLOAT = torch.float32


@pytest.fixture(scope="module")
def level09():
    with solutions_of("level09"):
        yield {name: importlib.import_module(f"level09.{name}") for name in ("comm", "threads", "collectives")}


@pytest.fixture
def run(level09):
    """run_threads; afterwards there are as many threads as before."""
    before = threading.active_count()
    yield level09["threads"].run_threads
    for thread in threading.enumerate():  # one that has just been told to end
        if thread is not threading.current_thread() and thread.name.startswith("Thread-"):
            thread.join(2)
    assert threading.active_count() == before


@pytest.fixture
def deadlock(level09):
    return level09["comm"].DeadlockError


def ring(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


# ---- what arrives


def test_results_come_by_rank_and_all_have_the_same_arguments(run):
    assert run(lambda comm, x, y: (comm.rank, comm.size, x, y), 3, "a", 2) == [(r, 3, "a", 2) for r in range(3)]


def test_one_rank_is_a_world(run):
    assert run(lambda comm: comm.rank, 1) == [0]
    with pytest.raises(ValueError, match="at least one rank, not 0"):
        run(lambda comm: comm.rank, 0)


def test_a_message_arrives_as_a_copy(run):
    """Neither side sees what the other does with its tensor afterwards."""
    kept = {}

    def program(comm):
        x = torch.arange(6.0).view(2, 3)
        if comm.rank == 0:
            kept["sent"] = x
            comm.send(x, 1)
            x += 100
            comm.send(torch.zeros(0), 1)  # only now rank 1 looks
            return x
        y = comm.recv((2, 3), FLOAT, 0)
        kept["came"] = y
        comm.recv((0,), FLOAT, 0)
        before = y.clone()
        y -= 1000
        return before

    sent, came = run(program, 2)
    assert torch.equal(came, torch.arange(6.0).view(2, 3)) and torch.equal(sent, came + 100)
    assert kept["sent"].untyped_storage().data_ptr() != kept["came"].untyped_storage().data_ptr()


def test_views_and_gradients_stay_at_home(run):
    def program(comm):
        x = torch.arange(6.0, requires_grad=True).view(2, 3).T
        return comm.sendrecv(x, *ring(comm))

    for came in run(program, 3):
        assert torch.equal(came, torch.arange(6.0).view(2, 3).T) and not came.requires_grad


def test_messages_between_two_ranks_keep_their_order(run):
    def program(comm):
        if comm.rank == 0:
            for i in range(5):
                comm.send(torch.tensor(i), 1)
            return None
        return [int(comm.recv((), torch.int64, 0)) for _ in range(5)]

    assert run(program, 2) == [None, [0, 1, 2, 3, 4]]


def test_from_each_rank_what_it_has_sent(run):
    """Whichever is asked first."""

    def program(comm):
        if comm.rank:
            return comm.send(torch.tensor(10 * comm.rank), 0)
        return [int(comm.recv((), torch.int64, source)) for source in (2, 3, 1)]

    assert run(program, 4)[0] == [20, 30, 10]


def test_sendrecv_with_another_shape_and_to_oneself(run):
    def program(comm):
        right, left = ring(comm)
        came = comm.sendrecv(torch.full((comm.rank + 1,), comm.rank), right, left, (left + 1,))
        own = torch.ones(2)
        copy = comm.sendrecv(own, comm.rank, comm.rank)
        copy += 1
        return came.tolist(), own.tolist(), (comm.messages, comm.bytes_sent)

    assert run(program, 3) == [([2, 2, 2], [1, 1], (1, 8)), ([0], [1, 1], (1, 16)), ([1, 1], [1, 1], (1, 24))]


def test_what_is_sent_is_counted(run):
    """By each rank for itself; receiving costs nothing."""

    def program(comm):
        start = comm.messages, comm.bytes_sent
        if comm.rank == 0:
            comm.send(torch.ones(3, 2, dtype=torch.bfloat16), 1)
            comm.send(torch.ones(0), 1)
        if comm.rank == 1:
            comm.recv((3, 2), torch.bfloat16, 0)
            comm.recv((0,), FLOAT, 0)
            comm.sendrecv(torch.ones(5), 2, 2)
        if comm.rank == 2:
            comm.sendrecv(torch.ones(5), 1, 1)
        return start, (comm.messages, comm.bytes_sent)

    for _ in range(2):
        assert run(program, 3) == [((0, 0), (2, 12)), ((0, 0), (1, 20)), ((0, 0), (1, 20))]


# ---- who waits for whom


def test_send_returns_when_the_other_has_received(run):
    log = []

    def program(comm):
        if comm.rank == 0:
            log.append("sends")
            comm.send(torch.ones(1), 1)
            log.append("has sent")
        else:
            log.append("works")
            comm.recv((1,), FLOAT, 0)
            log.append("has received")

    run(program, 2)
    assert log[:2] == ["sends", "works"] and set(log[2:]) == {"has sent", "has received"}


def test_the_same_program_runs_the_same_every_time(run):
    """One rank at a time, until it waits: not even a counter without a lock loses anything."""

    def program(comm, log):
        for step in range(20):
            seen = log[-1][2] if log else 0
            log.append((comm.rank, step, seen + 1))
            comm.sendrecv(torch.tensor(step), *ring(comm))

    logs = [[] for _ in range(5)]
    for log in logs:
        run(program, 4, log)
    assert all(log == logs[0] for log in logs) and [n for _, _, n in logs[0]] == list(range(1, 81))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_even_and_odd_ranks_in_turn_do_not_block(run, size):
    def program(comm):
        x, (right, left) = torch.tensor([comm.rank]), ring(comm)
        if comm.rank % 2 == 0:
            comm.send(x, right)
            return int(comm.recv((1,), torch.int64, left))
        came = comm.recv((1,), torch.int64, left)
        comm.send(x, right)
        return int(came)

    assert run(program, size) == [(r - 1) % size for r in range(size)]


def test_everybody_sends_first(run, deadlock):
    def program(comm):
        comm.send(torch.ones(1), ring(comm)[0])

    sentence = (
        "rank 0 waits for rank 1 to receive, rank 1 waits for rank 2 to receive, rank 2 waits for rank 0 to receive"
    )
    for _ in range(3):
        with pytest.raises(deadlock, match=f"^{sentence}$"):
            run(program, 3)


def test_everybody_receives_first(run, deadlock):
    def program(comm):
        comm.recv((1,), FLOAT, 1 - comm.rank)

    with pytest.raises(
        deadlock, match="^rank 0 waits for a message from rank 1, rank 1 waits for a message from rank 0$"
    ):
        run(program, 2)


def test_who_waits_for_one_that_has_ended(run, deadlock):
    """The sentence says which one that is; the other waits for the one that waits."""

    def program(comm):
        if comm.rank == 0:
            comm.recv((1,), FLOAT, 2)
        if comm.rank == 1:
            comm.send(torch.ones(1), 0)

    sentence = "rank 0 waits for a message from rank 2, which has ended, rank 1 waits for rank 0 to receive"
    with pytest.raises(deadlock, match=f"^{sentence}$"):
        run(program, 3)


def test_a_message_that_nobody_wants(run, deadlock):
    with pytest.raises(deadlock, match="^rank 0 waits for rank 1 to receive, which has ended$"):
        run(lambda comm: comm.send(torch.ones(1), 1) if comm.rank == 0 else None, 2)


def test_a_deadlock_cannot_be_swallowed(run, deadlock):
    """All ranks are told; one that goes on all the same does not make a result of it."""

    def program(comm):
        try:
            comm.recv((1,), FLOAT, 1 - comm.rank)
        except RuntimeError:
            return "fine"

    with pytest.raises(deadlock):
        run(program, 2)


# ---- what goes wrong


@pytest.mark.parametrize(
    "sent, words",
    [
        (torch.ones(2, 2), "(3, 2) torch.float32 from rank 0, which has sent (2, 2) torch.float32"),
        (torch.ones(3, 2).double(), "(3, 2) torch.float32 from rank 0, which has sent (3, 2) torch.float64"),
        (torch.ones(6), "(3, 2) torch.float32 from rank 0, which has sent (6,) torch.float32"),
    ],
    ids=["rows", "dtype", "axes"],
)
def test_what_is_not_expected_is_refused(run, sent, words):
    def program(comm):
        return comm.send(sent, 1) if comm.rank == 0 else comm.recv((3, 2), FLOAT, 0)

    with pytest.raises(ValueError, match=re.escape(f"rank 1 expects {words}: both have to know what is sent")):
        run(program, 2)


@pytest.mark.parametrize("partner", [-1, 3, 1])
def test_a_partner_is_another_rank(run, partner):
    calls = (
        lambda comm: comm.send(torch.ones(1), partner),
        lambda comm: comm.recv((1,), FLOAT, partner),
        lambda comm: comm.sendrecv(torch.ones(1), partner, 0),
        lambda comm: comm.sendrecv(torch.ones(1), 0, partner),
    )
    for call in calls:

        def program(comm, call=call):
            return call(comm) if comm.rank == 1 else None

        sentence = re.escape(f"rank 1 has no partner {partner}: the others are [0, 2]")
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            run(program, 3)


@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_the_first_to_fail_is_heard(run, culprit):
    """The others are ended, even those that catch what they are told."""

    def program(comm):
        if comm.rank == culprit:
            raise KeyError("the culprit")
        try:
            comm.sendrecv(torch.ones(1), *ring(comm))
        except Exception:
            raise ZeroDivisionError from None

    with pytest.raises(KeyError, match="the culprit"):
        run(program, 3)


def test_a_failure_later_on(run, level09):
    """After some messages, and while the others wait in the middle of a collective."""

    def program(comm):
        total = level09["collectives"].ring_all_reduce(comm, torch.ones(5))
        if comm.rank == 2:
            raise NotImplementedError("level09.somebody.else")
        return level09["collectives"].ring_all_reduce(comm, total)

    with pytest.raises(NotImplementedError, match="^level09.somebody.else$"):
        run(program, 4)


def test_a_rank_may_end_itself(run):
    with pytest.raises(SystemExit):
        run(lambda comm: sys.exit(1) if comm.rank == 1 else comm.recv((1,), FLOAT, 1), 2)


def test_a_comm_of_its_own_moves_nothing(level09):
    comm = level09["comm"].Comm(0, 2)
    with pytest.raises(TypeError, match="take one from run_threads"):
        comm.send(torch.ones(1), 1)


@pytest.mark.parametrize("waiting", [True, False], ids=["others wait", "all loop"])
def test_an_interrupt_ends_a_rank_that_loops(run, waiting):
    """Ctrl-C, or a test's timeout: it is raised here, and no thread goes on computing beside what comes next."""

    def program(comm):
        if waiting and comm.rank == 0:
            return comm.recv((1,), FLOAT, 1)
        while True:
            pass

    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run(program, 2)


def test_an_interrupt_ends_ranks_that_talk_for_ever(run):
    def program(comm):
        while True:
            comm.sendrecv(torch.ones(1), *ring(comm))

    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run(program, 3)
