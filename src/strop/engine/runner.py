"""One step on the network: rows in, drawn tokens out.

The runner owns the pool's tensors and the network's weights, and knows nothing of queues. It lays the rows
of a step out as one flat batch, groups rows of like length into buckets for the attention, and computes
logits only where a token is drawn. Weights change in two phases: `stage` checks everything and touches
nothing, `commit` copies.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strop.engine.attention import Bucket, Plan
from strop.engine.models import LoadedModel
from strop.engine.request import Request, Sampling
from strop.engine.sampler import log_softmax, sample, uniforms
from strop.engine.scheduler import Limits
from strop.engine.sequence import Draw, Live, Row
from strop.errors import MachineryFault, nearest

_GATHER_BYTES = 2 << 20
"""How much one attention call gathers at most, unless one row alone needs more: what a core's cache holds."""

_PADDING_TOKENS = 128
"""How many padded queries are taken into the bargain to save an attention call; an estimate."""

_SCORE_CHUNK = 256
"""How many rows of logits `score` holds at a time."""

Staged = list[tuple[Tensor, Tensor]]


class Runner:
    """Runs steps on the model's device; not to be shared between threads."""

    def __init__(self, model: LoadedModel, limits: Limits) -> None:
        self._model, self._network = model, model.network
        self._block_size = limits.block_size
        self._pools = self._pool(limits.blocks)
        self._scratch = torch.empty(0, dtype=self._network.dtype, device=self._network.device)

    def forward(self, rows: Sequence[Row]) -> Tensor:
        """Logits ``[sampling rows, vocabulary]`` of a step that a scheduler made; fills the pool."""
        ends = np.cumsum([row.length for row in rows])
        return self._logits(rows, self._pools, ends[[row.samples for row in rows]] - 1)

    def draw(self, rows: Sequence[Row], logits: Tensor) -> list[Draw]:
        """Sample the next token of each sampling row."""
        live = [row.sequence for row in rows if row.samples]
        if not live:
            return []
        wanted = [sequence.request.sampling for sequence in live]
        numbers = uniforms([s.seed for s in wanted], [len(sequence.tokens) for sequence in live])
        temperatures = torch.tensor([s.temperature for s in wanted], dtype=torch.float32)
        with torch.inference_mode():
            ids, logprobs = sample(
                logits, temperatures.to(logits.device), torch.from_numpy(numbers).to(logits.device)
            )
        return list(map(Draw, ids.tolist(), logprobs.tolist()))

    def score(self, ids: Sequence[int], temperature: float) -> list[float]:
        """Log-probabilities of ``ids[1:]``, each given all before it, under the current weights.

        Runs the same code as sampling, in a pool of its own that nobody else reads.
        """
        sequence = Live(Request("score", tuple(ids), Sampling(max_tokens=1)), arrival=0)
        sequence.blocks = list(range(-(-len(ids) // self._block_size)))
        pools = self._pool(len(sequence.blocks))
        found: list[float] = []
        for start in range(0, len(ids) - 1, _SCORE_CHUNK):
            targets = torch.tensor(ids[start + 1 : start + 1 + _SCORE_CHUNK], device=self._network.device)
            row = Row(sequence, start, len(targets), True)
            logits = self._logits([row], pools, np.arange(len(targets)))
            logprobs = log_softmax(logits, torch.full((len(targets),), temperature, device=logits.device))
            found += logprobs.gather(1, targets[:, None])[:, 0].tolist()
        return found

    def stage(self, tensors: Mapping[str, Tensor]) -> Staged:
        """Pair new weights with the old ones' places; nothing changes yet.

        Raises:
            MachineryFault: ``bad-weights``: a name is unknown or missing, a shape differs, or a value is
                not finite.
        """
        places: dict[str, Tensor] = self._network.state_dict()
        for name, tensor in tensors.items():
            if name not in places:
                hint = nearest(name, places)
                raise MachineryFault("bad-weights", f"the model has no weights {name!r}; nearest: {hint}")
            if tensor.shape != places[name].shape:
                shapes = f"{list(tensor.shape)}, not {list(places[name].shape)}"
                raise MachineryFault("bad-weights", f"{name!r} has shape {shapes}")
            if not tensor.isfinite().all():
                raise MachineryFault("bad-weights", f"{name!r} holds values that are no finite numbers")
        given = {places[name].data_ptr() for name in tensors}
        lacking = [name for name, place in places.items() if place.data_ptr() not in given]
        if lacking:
            raise MachineryFault("bad-weights", f"{len(lacking)} weights are missing, {lacking[0]!r} first")
        return [(places[name], tensor) for name, tensor in tensors.items()]

    def commit(self, staged: Staged) -> None:
        """Put staged weights in place."""
        with torch.no_grad():
            for place, tensor in staged:
                place.copy_(tensor)

    def _pool(self, blocks: int) -> list[Tensor]:
        network, size = self._network, self._block_size
        return [
            torch.zeros(
                blocks, size, 2, kept.heads, kept.head_dim, dtype=network.dtype, device=network.device
            )
            for kept in self._model.layers
        ]

    def _logits(self, rows: Sequence[Row], pools: list[Tensor], keep: NDArray[np.int64]) -> Tensor:
        ids, positions, slots, buckets = _lay_out(rows, pools, self._network.device)
        needed = max(len(bucket.table) for bucket in buckets) * max(pool[0].numel() for pool in pools)
        if needed > len(self._scratch):
            self._scratch = self._scratch.new_empty(needed)
        plan = Plan(pools, slots, buckets, self._scratch)
        with torch.inference_mode():
            answer = self._network(
                input_ids=ids[None],
                position_ids=positions[None],
                use_cache=False,
                logits_to_keep=torch.from_numpy(keep).to(ids.device),
                strop_plan=plan,
            )
        logits: Tensor = answer.logits[0]
        return logits


def _lay_out(
    rows: Sequence[Row], pools: list[Tensor], device: Any
) -> tuple[Tensor, Tensor, Tensor, list[Bucket]]:
    """Flat ids, positions and slots ``[tokens]``, and the rows in buckets for the attention."""
    lengths = np.array([row.length for row in rows])
    starts = np.array([row.start for row in rows])
    firsts = np.cumsum(lengths) - lengths
    ids = [token for row in rows for token in row.sequence.tokens[row.start : row.start + row.length]]
    positions = np.arange(len(ids)) - np.repeat(firsts - starts, lengths)
    size = pools[0].shape[1]
    spans = -(-(starts + lengths) // size)
    tables = np.zeros((len(rows), spans.max()), np.int64)
    for index, row in enumerate(rows):
        tables[index, : spans[index]] = row.sequence.blocks[: spans[index]]
    slots = tables[np.repeat(np.arange(len(rows)), lengths), positions // size] * size + positions % size
    limit = max(1, _GATHER_BYTES // (pools[0][0].numel() * pools[0].element_size()))
    buckets = []
    for begin, end in _groups(lengths, spans, limit):
        chosen = slice(begin, end)
        table = tables[chosen, : spans[chosen].max()]
        buckets.append(_bucket(firsts[begin], starts[chosen], lengths[chosen], table, device))
    places, put = torch.from_numpy(positions).to(device), torch.from_numpy(slots).to(device)
    return torch.tensor(ids, device=device), places, put, buckets


def _groups(lengths: NDArray[np.int64], spans: NDArray[np.int64], limit: int) -> list[tuple[int, int]]:
    """Cut rows, shortest first, into runs of like length that gather at most `limit` blocks together.

    Lengths are alike while the padding costs less than one more call, or is less than half of the shortest
    for each row; rows of one token stay among themselves.
    """
    groups, begin, widest = [], 0, 0
    for index in range(len(lengths)):
        widest = max(widest, spans[index])
        longer = lengths[index] - lengths[begin]
        alike = 2 * longer <= lengths[begin] or (
            lengths[begin] > 1 and longer * (index - begin) <= _PADDING_TOKENS
        )
        if index > begin and not (alike and (index + 1 - begin) * widest <= limit):
            groups.append((begin, index))
            begin, widest = index, spans[index]
    return [*groups, (begin, len(lengths))]


def _bucket(
    first: int,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    table: NDArray[np.int64],
    device: Any,
) -> Bucket:
    total, longest = int(lengths.sum()), int(lengths.max())
    offsets = np.arange(longest)
    real = offsets < lengths[:, None]
    positions = np.where(real, starts[:, None] + offsets, 0)
    spread = gather = None
    if not real.all():
        within = np.cumsum(lengths) - lengths
        spread = torch.from_numpy(np.where(real, within[:, None] + offsets, 0).ravel()).to(device)
        gather = torch.from_numpy(np.flatnonzero(real)).to(device)
    return Bucket(
        first=int(first),
        last=int(first) + total,
        positions=torch.from_numpy(positions).to(device),
        table=torch.from_numpy(table.ravel()).to(device),
        spread=spread,
        gather=gather,
    )
