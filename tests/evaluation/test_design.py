import pytest

from strop.errors import Refusal
from strop.evaluation.design import allocate
from strop.evaluation.strata import Cell

CELLS = [Cell(family, difficulty) for family in ("a", "b", "c") for difficulty in ("easy", "hard")]


@pytest.mark.parametrize("total", [6, 7, 11, 12, 300, 301])
def test_as_even_as_can_be(total):
    counts = allocate(CELLS, total)
    assert list(counts) == CELLS
    assert sum(counts.values()) == total
    assert max(counts.values()) - min(counts.values()) <= 1
    assert sorted(counts.values(), reverse=True) == list(counts.values())


def test_fewer_tasks_than_cells_are_refused():
    with pytest.raises(Refusal, match="5 tasks cannot cover 6 cells") as caught:
        allocate(CELLS, 5)
    assert caught.value.nearest == "6"


def test_no_cells():
    with pytest.raises(ValueError, match="no cells"):
        allocate([], 5)
