import pytest

from strop.engine.blocks import Blocks


def test_empty_blocks_go_before_idle_ones_and_idle_ones_by_age() -> None:
    blocks = Blocks(total=3, size=16)
    first, second = blocks.take(), blocks.take()
    blocks.release(second, keep=True)
    blocks.release(first, keep=True)
    assert blocks.available == 3
    assert blocks.take() not in (first, second)
    assert [blocks.take(), blocks.take()] == [second, first]


def test_a_block_found_again_is_no_longer_given_away() -> None:
    blocks = Blocks(total=2, size=16)
    wanted, other = blocks.take(), blocks.take()
    blocks.release(wanted, keep=True)
    blocks.release(other, keep=True)
    blocks.hold(wanted)
    assert blocks.take() == other
    assert blocks.available == 0
    with pytest.raises(IndexError):
        blocks.take()


def test_a_shared_block_is_free_when_its_last_holder_is_gone() -> None:
    blocks = Blocks(total=1, size=16)
    block = blocks.take()
    blocks.hold(block)
    blocks.release(block, keep=False)
    assert blocks.available == 0
    assert blocks.holders(block) == 1
    blocks.release(block, keep=False)
    assert blocks.available == 1
    with pytest.raises(ValueError, match="held by nobody"):
        blocks.release(block, keep=False)


def test_check_finds_a_lost_and_a_miscounted_block() -> None:
    blocks = Blocks(total=2, size=16)
    block = blocks.take()
    blocks.check([[block]])
    with pytest.raises(AssertionError):
        blocks.check([])
    with pytest.raises(AssertionError):
        blocks.check([[block], [block]])


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2)])
def test_spanned_counts_blocks_begun(tokens: int, blocks: int) -> None:
    assert Blocks(total=1, size=16).spanned(tokens) == blocks


def test_a_pool_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="0 blocks"):
        Blocks(total=0, size=16)
