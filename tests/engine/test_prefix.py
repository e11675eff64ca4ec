from strop.engine.blocks import Blocks
from strop.engine.prefix import ROOT, PrefixCache, chain, link


def test_a_key_names_all_that_a_block_depends_on() -> None:
    key = link(ROOT, (1, 2), (0,))
    others = [
        link(ROOT, (1, 3), (0,)),
        link(ROOT, (1, 2), (1,)),
        link(ROOT, (1, 2), (0, 1)),
        link(link(ROOT, (1, 2), (0,)), (1, 2), (0,)),
    ]
    assert len({key, *others}) == 5
    assert link(ROOT, [1, 2], {0}) == key
    assert link(ROOT, (1, 2), {0, 1}) == link(ROOT, (1, 2), {1, 0})


def test_older_versions_show_in_every_later_key() -> None:
    """The naive scheme seeds the chain alone, and would give both later blocks the same key."""
    crossed = link(link(ROOT, (1, 2), (0,)), (3, 4), (1,))
    fresh = link(link(ROOT, (1, 2), (1,)), (3, 4), (1,))
    assert crossed != fresh


def test_chain_leaves_the_last_token_to_compute() -> None:
    assert len(chain(range(8), size=4, version=0)) == 1
    assert len(chain(range(9), size=4, version=0)) == 2
    assert chain(range(4), size=4, version=0) == ()
    assert chain(range(9), size=4, version=0)[:1] == chain(range(8), size=4, version=0)


def test_blocks_stay_findable_until_they_are_taken() -> None:
    cache = PrefixCache(Blocks(total=3, size=2))
    keys = chain((1, 2, 3, 4, 5), size=2, version=0)
    table = [cache.take(), cache.take()]
    for key, block in zip(keys, table, strict=True):
        cache.file(key, block)
    cache.release(table)
    cache.check([])
    assert cache.known(keys) == 2
    assert cache.match(keys) == table
    cache.check([table])
    cache.release(table)
    cache.take(), cache.take()
    assert cache.known(keys) == 1, "the deeper block goes first: it is useless without the other"
    cache.take()
    assert cache.known(keys) == 0


def test_the_first_of_two_equal_blocks_is_the_one_found() -> None:
    cache = PrefixCache(Blocks(total=2, size=2))
    key = link(ROOT, (1, 2), (0,))
    first, second = cache.take(), cache.take()
    cache.file(key, first)
    cache.file(key, second)
    cache.release([second])
    assert cache.match([key]) == [first]
    cache.release([first])
    cache.release([first])
    cache.check([])


def test_known_stops_at_the_first_gap() -> None:
    cache = PrefixCache(Blocks(total=2, size=2))
    keys = chain((1, 2, 3, 4, 5), size=2, version=0)
    cache.file(keys[1], cache.take())
    assert cache.known(keys) == 0
