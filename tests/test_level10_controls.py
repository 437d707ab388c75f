"""The negative controls of level 10's checkpoint: what it refuses, and the right programs that it accepts."""

import pytest

from dojo.expect import Expect, Mismatch
from dojo.models import load
from dojo.roofline import judge
from tests.controls import checkpoint_of, solutions_of

LEVELS = [f"level{n:02}" for n in range(11)]


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of(*LEVELS):
        yield checkpoint_of("level10")


@pytest.fixture(scope="module")
def one_at_a_time(checkpoint):
    """A server whose engine runs one sequence in a step: the words are right, and all others wait."""
    with checkpoint.Serving(load(), max_seqs=1) as serving:
        yield serving


@pytest.mark.timeout(180)
def test_one_stream_at_a_time_is_too_slow(checkpoint, one_at_a_time):
    alone = checkpoint.alone(load())
    slow = judge(checkpoint.streaming(one_at_a_time), alone, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    with checkpoint.Serving(load()) as serving:
        right = judge(checkpoint.streaming(serving), alone, need=checkpoint.NEED)
    assert right.state == "pass", str(right)


def test_one_stream_at_a_time_makes_a_step_for_each_token(checkpoint, one_at_a_time):
    checkpoint.test_everybody_reads_the_answer_of_another_implementation(Expect(), one_at_a_time)
    with pytest.raises(Mismatch, match="in at most 60% of"):
        checkpoint.test_requests_that_come_by_chance_share_the_steps(Expect(), one_at_a_time)


def test_an_engine_that_is_not_told_decodes_for_nobody(checkpoint, monkeypatch):
    """The client is gone, and nothing looks wrong: only the steps tell."""
    from level10.bridge import Tokens

    async def stay(self):
        self.over = True

    monkeypatch.setattr(Tokens, "aclose", stay)
    with checkpoint.Serving(load()) as serving, pytest.raises(Mismatch, match="3 to 12 steps"):
        checkpoint.test_a_client_that_hangs_up_is_decoded_for_no_longer(Expect(), serving)


def test_a_server_that_ends_leaves_no_thread_and_no_port(checkpoint):
    with checkpoint.Serving(load()) as serving:
        port = serving.socket.getsockname()[1]
    assert not serving.thread.is_alive()
    checkpoint.listen("127.0.0.1", port).close()  # it is free again
